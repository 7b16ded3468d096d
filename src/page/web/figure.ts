// The sheet "Picture": which picture of the view is saved, how large, with what beside the data; or
// a sequence of pictures over slices or time points, as a ZIP file.

import { Zip, ZipPassThrough } from "fflate";

import type { Channel } from "./data";
import { h, sheet } from "./dom";
import { type BarLook, type Choice, enlarged, type Extras, png, save, sideBySide } from "./picture";

const MAX_PIXELS = 64e6;
const FACTORS = [1, 2, 4];
const PLACES: BarLook["place"][] = ["bottom left", "bottom right", "top left", "top right"];

/**
 * A slice of the active plane, as it is numbered on the page, and a time point; what is absent is
 * that of the view.
 */
export interface Moment {
  slice?: number;
  time?: number;
}

export interface PictureOf {
  choices: Choice[];
  caption: string;
  /** Of the file, without its extension. */
  name: string;
}

/** What pictures can be made of. */
export interface Subject {
  /** The pictures of the view at a moment, of all its channels or of one. */
  of(moment: Moment, only?: Channel): PictureOf;
  /** The images that are shown. */
  images: Channel[];
  /** What a sequence can go through: its first and last number. */
  along: { says: string; key: keyof Moment; letter: string; first: number; last: number }[];
  hasLine: boolean;
}

/** What was chosen last. */
const kept = {
  factor: 1,
  bar: true,
  length: "",
  place: PLACES[0] as BarLook["place"],
  colour: "#ffffff",
  line: true,
  caption: true,
  beside: false,
};

/** Asks which picture, and saves it. */
export function pictureSheet(
  subject: Subject,
  failed: (error: unknown) => void,
): HTMLDialogElement {
  const ending = new AbortController();
  const { signal } = ending;
  const tick = (id: string, key: "bar" | "line" | "caption" | "beside") => {
    const field = h("input", {
      type: "checkbox",
      id,
      checked: kept[key],
      onchange: () => {
        kept[key] = field.checked;
        show();
      },
    });
    return field;
  };
  const choose = <T extends string>(
    id: string,
    says: string,
    values: T[],
    now: T,
    chosen: (value: T) => void,
  ) => {
    const field = h(
      "select",
      { id, "aria-label": says, onchange: () => chosen(field.value as T) },
      ...values.map((value) => h("option", { value, selected: value === now }, value)),
    );
    return field;
  };
  const { choices, caption } = subject.of({});
  const radios = choices.map((_, i) =>
    h("input", {
      type: "radio",
      name: "resolution",
      id: `resolution-${i}`,
      checked: i === 0,
      onchange: () => show(),
    }),
  );
  const sizes = choices.map(() => h("span", {}));
  const factor = choose(
    "picture-factor",
    "Factor",
    FACTORS.map(String),
    String(kept.factor),
    (value) => {
      kept.factor = Number(value);
      show();
    },
  );
  const length = h("input", {
    type: "text",
    id: "scale-length",
    className: "number",
    value: kept.length,
    placeholder: "round",
    "aria-label": "Length of the scale bar, such as 10 µm",
    oninput: () => (kept.length = length.value.trim()),
  });
  const place = choose(
    "scale-place",
    "Place of the scale bar",
    PLACES,
    kept.place,
    (value) => (kept.place = value),
  );
  const colour = h("input", {
    type: "color",
    id: "scale-colour",
    value: kept.colour,
    "aria-label": "Colour of the scale bar",
    onchange: () => (kept.colour = colour.value),
  });
  const [first, last] = ["first", "last"].map((end) =>
    h("input", {
      type: "number",
      id: `sequence-${end}`,
      className: "number short",
      "aria-label": `The ${end} picture of the sequence`,
    }),
  ) as [HTMLInputElement, HTMLInputElement];
  const along = choose(
    "sequence",
    "One picture, or a sequence",
    ["one picture", ...subject.along.map(({ says }) => says)],
    "one picture",
    () => begin(),
  );
  const ends = h("span", { className: "field", hidden: true }, first, "to", last);
  const button = h("button", { type: "button", autofocus: true }, "Save picture");

  const chosen = () =>
    Math.max(
      0,
      radios.findIndex((radio) => radio.checked),
    );
  const sequence = () => subject.along.find(({ says }) => says === along.value);
  const begin = () => {
    const all = sequence();
    ends.hidden = !all;
    [first.value, last.value] = [String(all?.first ?? ""), String(all?.last ?? "")];
    button.textContent = all ? "Save pictures" : "Save picture";
  };
  const count = () => (kept.beside && subject.images.length > 1 ? subject.images.length + 1 : 1);
  const show = () =>
    choices.forEach(({ says, width, height }, i) => {
      const [wide, high] = [width * kept.factor * count(), height * kept.factor];
      const isLarge = wide * high > MAX_PIXELS;
      (radios[i] as HTMLInputElement).disabled = isLarge;
      (sizes[i] as HTMLElement).textContent =
        `${says}: ${wide.toLocaleString("en")} × ${high.toLocaleString("en")} pixels${isLarge ? " (more than 64 million; zoom in)" : ""}`;
      button.disabled = radios.every((radio) => radio.disabled || !radio.checked);
    });

  /** The file of a moment, and its name. */
  const file = async (moment: Moment): Promise<[Uint8Array<ArrayBuffer>, string]> => {
    const whole = subject.of(moment);
    const of = ({ choices: all }: PictureOf) => all[chosen()] as Choice;
    const apart =
      count() > 1
        ? subject.images.map((channel): [string, Choice] => [
            channel.label ?? channel.name,
            of(subject.of(moment, channel)),
          ])
        : [];
    const choice = apart.length ? sideBySide([...apart, ["merge", of(whole)]]) : of(whole);
    const extras: Extras = {
      bar: kept.bar ? { length: kept.length, place: kept.place, colour: kept.colour } : null,
      line: kept.line,
      caption: kept.caption ? whole.caption : "",
    };
    const texts = {
      Title: whole.name,
      Description: whole.caption,
      Source: location.href,
      Software: "voltile",
    };
    return [await png(enlarged(choice, kept.factor), extras, texts, signal), whole.name];
  };
  const makeSequence = async ({
    key,
    letter,
    first: least,
    last: most,
  }: Subject["along"][number]) => {
    const within = (field: HTMLInputElement, otherwise: number) =>
      Math.min(
        Math.max(field.value === "" ? otherwise : Math.floor(Number(field.value)), least),
        most,
      );
    const [from, to] = [within(first, least), within(last, most)];
    const parts: Uint8Array<ArrayBuffer>[] = [];
    // PNG files are compressed already.
    const zip = new Zip((error, part) =>
      error ? failed(error) : parts.push(part as Uint8Array<ArrayBuffer>),
    );
    const step = from <= to ? 1 : -1;
    const digits = String(Math.max(from, to)).length;
    const all = Math.abs(to - from) + 1;
    // The number stands at the end of the name, and its letter may also be in the token before.
    const renumbered = (of: string, number: number, text: string) => {
      const place = of.lastIndexOf(`_${letter}${number}`) + 2;
      return of.slice(0, place) + text + of.slice(place + String(number).length);
    };
    let name = "";
    for (let number = from, i = 1; i <= all; number += step, i += 1) {
      button.textContent = `Drawing ${i} of ${all} …`;
      const [bytes, of] = await file({ [key]: number });
      name ||= of;
      // In the order of names.
      const entry = new ZipPassThrough(
        `${renumbered(of, number, String(number).padStart(digits, "0"))}.png`,
      );
      zip.add(entry);
      entry.push(bytes, true);
    }
    zip.end();
    save(new Blob(parts), "application/zip", `${renumbered(name, from, `${from}-${to}`)}.zip`);
  };
  const make = async () => {
    button.disabled = true;
    button.textContent = "Drawing …";
    try {
      const all = sequence();
      if (all) await makeSequence(all);
      else {
        const [bytes, name] = await file({});
        save(bytes, "image/png", `${name}.png`);
      }
    } catch (error) {
      if (!signal.aborted) failed(error);
    }
    dialog.close();
  };
  button.addEventListener("click", () => void make());
  const field = (...parts: (Node | string)[]) => h("div", { className: "field" }, ...parts);
  const ticked = (box: HTMLInputElement, ...parts: (Node | string)[]) =>
    h("label", { className: "field" }, box, ...parts);
  const dialog = sheet(
    "Picture",
    ...radios.map((radio, i) => ticked(radio, sizes[i] as HTMLElement)),
    field("Factor", factor),
    field(ticked(tick("with-scale", "bar"), "Scale bar"), length, place, colour),
    ...(subject.hasLine ? [ticked(tick("with-line", "line"), "The measured line")] : []),
    ...(subject.images.length > 1
      ? [ticked(tick("beside", "beside"), "Channels beside the merge")]
      : []),
    ticked(tick("with-caption", "caption"), "Caption: ", h("span", {}, caption)),
    ...(subject.along.length ? [field("Sequence", along, ends)] : []),
    button,
  );
  dialog.addEventListener("close", () => ending.abort());
  show();
  return dialog;
}
