// A transaction drawn as a flow: bands from its inputs to its outputs, as wide as their amounts.

type Band = { value: number; label: string; className: string };

const [WIDTH, HEIGHT, BAR, GAP] = [1000, 220, 10, 3];

/** What a side shows at most; the rest is one band. */
const MOST = 24;

function atMost(bands: Band[], className: string): Band[] {
  if (bands.length <= MOST) return bands;
  const rest = bands.slice(MOST - 1);
  // a band is a picture of its amount: rounding is of no consequence here, and nowhere else are amounts added
  return [...bands.slice(0, MOST - 1), { value: rest.reduce((sum, { value }) => sum + value, 0), label: `${rest.length} more`, className }];
}

/** Where each band begins and how wide it is, with at least a line for the smallest. */
function place(bands: Band[], total: number) {
  const room = HEIGHT - GAP * (bands.length - 1);
  const least = Math.min(2, room / bands.length);
  const widths = bands.map(({ value }) => Math.max(least, total > 0 ? (value / total) * room : room / bands.length));
  const scale = room / widths.reduce((sum, width) => sum + width, 0);
  let y = 0;
  return bands.map((band, index) => {
    const height = widths[index]! * scale;
    const placed = { ...band, y, height };
    y += height + GAP;
    return placed;
  });
}

export function Flow({ inputs, outputs, label }: { inputs: Band[]; outputs: Band[]; label: string }) {
  const sides = [atMost(inputs, 'flow-in'), atMost(outputs, 'flow-out')] as const;
  const total = Math.max(...sides.map((bands) => bands.reduce((sum, { value }) => sum + value, 0)));
  const [left, right] = [place(sides[0], total), place(sides[1], total)];
  const middle = (bands: typeof left) => {
    const sum = bands.reduce((height, band) => height + band.height, 0);
    let y = (HEIGHT - Math.min(sum, HEIGHT * 0.6)) / 2;
    return bands.map((band) => {
      const height = (band.height / sum) * Math.min(sum, HEIGHT * 0.6);
      const from = y;
      y += height;
      return { from, height };
    });
  };
  const [inner, outer] = [middle(left), middle(right)];
  const curve = (x1: number, a: { y: number; height: number }, x2: number, b: { from: number; height: number }) => {
    const half = (x1 + x2) / 2;
    return `M${x1} ${a.y}C${half} ${a.y} ${half} ${b.from} ${x2} ${b.from}V${b.from + b.height}C${half} ${b.from + b.height} ${half} ${a.y + a.height} ${x1} ${a.y + a.height}Z`;
  };
  return (
    <svg className="flow" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {left.map((band, index) => (
        <g key={`in${index}`} className={band.className}>
          <title>{band.label}</title>
          <path className="band" d={curve(BAR, band, WIDTH / 2, inner[index]!)} />
          <rect x={0} y={band.y} width={BAR} height={band.height} />
        </g>
      ))}
      {right.map((band, index) => (
        <g key={`out${index}`} className={band.className}>
          <title>{band.label}</title>
          <path className="band" d={curve(WIDTH - BAR, band, WIDTH / 2, outer[index]!)} />
          <rect x={WIDTH - BAR} y={band.y} width={BAR} height={band.height} />
        </g>
      ))}
    </svg>
  );
}
