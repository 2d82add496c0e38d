// Figures as text. Amounts are integers of satoshis throughout: their decimal point is a matter of text.

const DECIMALS = 8;

/** Thin spaces between groups of three digits. */
export const grouped = (digits: string) => digits.replace(/\B(?=(\d{3})+$)/g, '\u2009');

/** An amount in parts: `-1 234.5` of −123450000000 satoshis is sign `−`, whole `1 234`, significant `5`, zeros `0000000`. */
export function btc(satoshis: number | bigint) {
  const text = BigInt(satoshis).toString();
  const isNegative = text.startsWith('-');
  const digits = (isNegative ? text.slice(1) : text).padStart(DECIMALS + 1, '0');
  const decimals = digits.slice(-DECIMALS);
  const significant = decimals.replace(/0+$/, '');
  return {
    sign: isNegative ? '−' : '',
    whole: grouped(digits.slice(0, -DECIMALS)),
    significant,
    zeros: decimals.slice(significant.length),
  };
}

/** An amount as plain text, to copy. */
export function btcText(satoshis: number | bigint) {
  const { sign, whole, significant, zeros } = btc(satoshis);
  return `${sign.replace('−', '-')}${whole.replaceAll('\u2009', '')}.${significant}${zeros}`;
}

/** An integer with thin spaces between its groups. */
export const count = (number: number | bigint) => {
  const text = number.toString();
  return text.startsWith('-') ? `−${grouped(text.slice(1))}` : grouped(text);
};

/** A number of things: `1 block`, `2 blocks`. */
export const things = (number: number, one: string, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** A feerate in sat/vB with the digits that tell it from others. */
export function rate(feeRate: number) {
  if (feeRate === 0) return '0';
  if (feeRate < 1) return feeRate.toPrecision(2).replace(/\.?0+$/, '');
  if (feeRate < 100) return feeRate.toFixed(1).replace(/\.0$/, '');
  return feeRate < 10_000 ? grouped(feeRate.toFixed(0)) : scaled(feeRate, '').replace('\u00a0', '');
}

/** One of nine classes of feerates, each beginning at twice the one before: below 1, from 1, from 2, … from 128 sat/vB. */
export const feeClass = (feeRate: number) => (feeRate < 1 ? 0 : Math.min(8, Math.floor(Math.log2(feeRate)) + 1));

/** A figure with a unit by thousands: `1.25 MvB`. */
export function scaled(number: number, unit: string) {
  const steps: [number, string][] = [[1e21, 'Z'], [1e18, 'E'], [1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  const [step, prefix] = steps.find(([least]) => Math.abs(number) >= least) ?? [1, ''];
  const value = number / step;
  if (value !== 0 && Math.abs(value) < 0.1) return `${Number(value.toPrecision(2))}\u00a0${unit}`;
  const digits = step === 1 ? (Number.isInteger(value) ? 0 : 1) : value < 10 ? 2 : value < 100 ? 1 : 0;
  return `${value.toFixed(digits)}\u00a0${prefix}${unit}`;
}

/** A difficulty: four digits with a suffix by thousands. */
export function difficulty(value: number) {
  if (value < 1) return value.toPrecision(3);
  return scaled(value, '').trim();
}

export const percent = (share: number, digits = 1) => `${(share * 100).toFixed(digits)}\u00a0%`;

/** A change with its sign: `+1.2 %`. */
export const change = (share: number) => `${share > 0 ? '+' : share < 0 ? '−' : ''}${percent(Math.abs(share), 2)}`;

const SPANS: [number, string][] = [[31_556_952, 'y'], [86_400, 'd'], [3_600, 'h'], [60, 'min'], [1, 's']];

/** A time span by its two largest units: `1 h 5 min`. */
export function span(seconds: number) {
  const whole = Math.max(0, Math.round(seconds));
  const first = SPANS.findIndex(([length]) => whole >= length);
  if (first < 0) return '0 s';
  const [length, unit] = SPANS[first]!;
  const large = `${Math.floor(whole / length)}\u00a0${unit}`;
  const next = SPANS[first + 1];
  const rest = next && Math.floor((whole % length) / next[0]);
  // seconds are noise beside minutes
  return next && rest && next[0] > 1 ? `${large} ${rest}\u00a0${next[1]}` : large;
}

/** How long ago a time is: `just now`, `5 min ago`, `in 2 d`. */
export function ago(time: string, now: number) {
  const seconds = (now - Date.parse(time)) / 1_000;
  if (Math.abs(seconds) < 3) return 'just now';
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

const clock = new Intl.DateTimeFormat('en-CA', { dateStyle: 'short', timeStyle: 'medium', hour12: false, timeZone: 'UTC' });

/** A time in UTC: `2026-11-24 03:43:14`. */
export const utc = (time: string) => `${clock.format(new Date(time)).replace(', ', ' ')} UTC`;

const NAMES: Record<string, string> = {
  MAINNET: 'Mainnet',
  TESTNET_3: 'Testnet 3',
  TESTNET_4: 'Testnet 4',
  SIGNET: 'Signet',
  REGTEST: 'Regtest',
  OP_RETURN: 'OP_RETURN',
  WITNESS_UNKNOWN: 'unknown witness',
  NONSTANDARD: 'nonstandard',
  EMPTY: 'empty',
};

/** A value of an enum in words. */
export const words = (value: string) => NAMES[value] ?? (/\d/.test(value) ? value : value.toLowerCase().replaceAll('_', ' '));
