// Ticks and texts of a timeline's axes. Python puts this text before timeline_painting.js.
const DAY = 864e5; // ms
const STEPS = [
  [1, [1, 2, 5, 10, 20, 50, 100, 200, 500]],
  [1e3, [1, 2, 5, 10, 15, 30]],
  [6e4, [1, 2, 5, 10, 15, 30]],
  [36e5, [1, 2, 3, 6, 12]],
  [DAY, [1, 2, 7, 14]],
].flatMap(([unit, counts]) => counts.map((k) => k * unit));
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

const numberText = (value) => value.toLocaleString("en", { maximumSignificantDigits: value % 1 ? 12 : 21 });

// Return how numbers from low to high are written: an offset and a power of ten keep their texts short.
// cepkit/plots/timeline_axes.py does the same for still pictures.
// `base` is what all numbers are after.
function numberScale(low, high, base = 0n) {
  const span = high - low || Math.abs(high) || 1;
  const large = Math.max(Math.abs(low), Math.abs(high));
  const size = Math.max(1, 10 ** Math.ceil(Math.log10(span)));
  const origin = large >= 1e9 && large > 100 * span ? Math.floor(low / size) * size : 0;
  const greatest = Math.max(Math.abs(low - origin), Math.abs(high - origin));
  const isPlain = origin ? greatest >= 1e-3 && greatest < 1e6 : greatest >= 1e-4 && greatest < 1e9;
  const power = isPlain || !greatest ? 0 : 3 * Math.floor(Math.log10(greatest) / 3);
  const raised = String(power).replace(/./g, (one) => SUPERSCRIPTS[one] ?? "⁻");
  return {
    text: (value) => numberText(Number(((value - origin) / 10 ** power).toPrecision(12))),
    note:
      (origin || base ? ` − ${(base + BigInt(origin)).toLocaleString("en")}` : "") +
      (power ? `, in 10${raised}` : ""),
  };
}

function numberTicks(low, high, most, base = 0n) {
  const scale = numberScale(low, high, base);
  return ticks(low, high, most).map((at) => ({ at, text: scale.text(at), sub: "" }));
}

// Return a time as the clocks of its zone show it. `offsets` has pairs: a time, and the difference from UTC that
// holds from then on.
function localTime(offsets, time) {
  let k = 0;
  while (k + 2 < offsets.length && offsets[k + 2] <= time) k += 2;
  return time + (offsets[k + 1] ?? 0);
}

// Return the exact time of an event: a number, or nanoseconds since 1970.
function tickText(tick, isClock, offsets) {
  if (!isClock) return tick.toLocaleString("en");
  const part = ((tick % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const second = clockText(Number((tick - part) / 1_000_000n), offsets);
  const digits = `${part}`.padStart(9, "0").replace(/(000)+$/, "");
  return digits ? `${second}.${digits}` : second;
}

const clockText = (time, offsets) =>
  new Date(localTime(offsets, time))
    .toISOString()
    .replace("T", " ")
    .replace(/(\.000)?Z$/, "");

// Return ticks at round times of the zone.
function timeTicks(low, high, most, offsets) {
  const step = STEPS.find((one) => one * most >= high - low);
  const months =
    [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200].find((k) => k * 30 * DAY * most >= high - low) ?? 12000;
  const monday = step >= 7 * DAY ? 4 * DAY : 0;
  const begin = localTime(offsets, low);
  const monthOf = (new Date(begin).getUTCFullYear() - 1970) * 12 + new Date(begin).getUTCMonth();
  const first = step ? Math.ceil((begin - monday) / step) : Math.floor(monthOf / months);
  const all = Array.from({ length: 2 * most + 3 }, (_, k) =>
    step ? monday + (first + k) * step : Date.UTC(1970, (first + k) * months),
  );
  let before = "";
  return all
    .map((local) => ({ local, at: 2 * local - localTime(offsets, local) }))
    .map(({ local, at }) => ({ local, at: at + local - localTime(offsets, at) })) // the clocks may change between
    .filter(({ local, at }) => at >= low && at <= high && localTime(offsets, at) === local) // it may not exist
    .map(({ local, at }) => {
      const [, day, month, year] = new Date(local).toUTCString().split(" ");
      const clock = new Date(local).toISOString().slice(11, step < 1e3 ? 23 : step < 6e4 ? 19 : 16);
      const date = `${Number(day)} ${month}`;
      const [text, sub] = step
        ? step < DAY
          ? [clock, `${date} ${year}`]
          : [date, year]
        : months < 12
          ? [month, year]
          : [year, ""];
      return { at, text, sub: sub === before ? "" : (before = sub) };
    });
}
