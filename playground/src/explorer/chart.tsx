// Lines and areas over time, by uPlot: small, on a canvas, and fast with thousands of points.

import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import { useStore } from './store';
import { theme } from './theme';

export type Series = {
  label: string;
  /** A CSS variable: canvases know no classes. */
  colour: string;
  isFilled?: boolean;
  isStepped?: boolean;
  values: (number | null)[];
  /** What the legend says where it is not what is drawn: of a layer, its own height. */
  told?: (number | null)[];
};

type Props = {
  /** In seconds since 1970. */
  times: number[];
  series: Series[];
  format: (value: number) => string;
  height?: number;
  label: string;
};

const MINUTE = 60;
const DAY = 86_400;

/** Labels of the time axis by the distance of its ticks: the label, and what a tick adds that begins a year or a day. */
const DATES: uPlot.Axis.Values = [
  [365 * DAY, '{YYYY}', null, null, null, null, null, null, 1],
  [28 * DAY, '{MMM}', '\n{YYYY}', null, null, null, null, null, 1],
  [DAY, '{DD} {MMM}', '\n{YYYY}', null, null, null, null, null, 1],
  [MINUTE, '{HH}:{mm}', '\n{DD} {MMM} {YYYY}', null, '\n{DD} {MMM}', null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', '\n{DD} {MMM} {YYYY}', null, '\n{DD} {MMM}', null, null, null, 1],
];

const variable = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** What a CSS variable is now as a colour that a canvas takes: `light-dark()` is for styles alone. */
function colourOf(name: string, probe: HTMLElement) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

const faded = (colour: string, alpha: number) => colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

/** Room for the labels of the values: about seven pixels a character. */
const widthOf = (_: uPlot, labels: string[] | null) => 20 + 7 * Math.max(6, ...(labels ?? []).map((label) => label.length));

/** At rest, the legend shows the newest values. */
function restLegend(plot: uPlot) {
  if (plot.cursor.idx == null) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
}

export default function Chart({ times, series, format, height = 220, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const current = useStore(theme);
  const latest = useRef<uPlot>(undefined);
  const drawn = useRef(series);
  drawn.current = series;
  const shape = series.map(({ label, colour }) => `${label}${colour}`).join();
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData;

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const make = () => {
      latest.current?.destroy();
      const [text, grid] = [colourOf('--quiet', element), colourOf('--line', element)];
      const colours = series.map(({ colour }) => colourOf(colour, element));
      element.style.removeProperty('color');
      const font = `12px ${variable('--sans')}`;
      const axis = { stroke: text, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 } };
      latest.current = new uPlot(
        {
          width: element.clientWidth,
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC'),
          height,
          legend: { live: true },
          cursor: { drag: { x: false, y: false }, points: { size: 6 } },
          hooks: { setCursor: [restLegend], ready: [restLegend] },
          scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
          axes: [{ ...axis, values: DATES, space: 68 }, { ...axis, size: widthOf, values: (_, values) => values.map(format) }],
          series: [
            { value: (_, time) => (time == null ? '–' : `${new Date(time * 1_000).toISOString().slice(0, 16).replace('T', ' ')} UTC`), label: 'Time' },
            ...series.map(({ label, isFilled, isStepped }, index): uPlot.Series => ({
              label,
              stroke: colours[index]!,
              width: isFilled ? 1 : 1.5,
              ...(isFilled && { fill: faded(colours[index]!, isStepped ? 0.14 : 1) }),
              ...(isStepped && { paths: uPlot.paths.stepped!({ align: 1 }) }),
              points: { show: false },
              value: (_, value, __, at) => {
                const told = at == null ? value : (drawn.current[index]?.told?.[at] ?? value);
                return told == null ? '–' : format(told);
              },
            })),
          ],
        },
        data,
        element,
      );
    };
    make();
    const sizes = new ResizeObserver(() => latest.current?.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', make);
    return () => {
      sizes.disconnect();
      scheme.removeEventListener('change', make);
      latest.current?.destroy();
      latest.current = undefined;
    };
    // the data changes by setData
  }, [shape, current, height]);

  useEffect(() => {
    latest.current?.setData(data);
    if (latest.current) restLegend(latest.current);
  }, [JSON.stringify(data)]);

  return <div className="chart" ref={box} role="img" aria-label={label} />;
}
