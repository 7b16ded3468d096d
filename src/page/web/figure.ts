// The sheet "Picture". It asks which picture of the view is saved, how large it is, and whether it
// has a scale bar, the measured line and a caption. A sequence of pictures is saved as a ZIP file.

import { Zip, ZipPassThrough } from "fflate";

import { type Channel, labelOf } from "./data";
import { h, save, sheet } from "./dom";
import { clamp } from "./geometry";
import { type Code } from "./paint";
import { type BarLook, type Choice, enlarged, type Extras, png, sideBySide } from "./picture";

/** The most pixels of a picture, which browsers can still draw. */
const MAX_PIXELS = 64e6;
const FACTORS = [1, 2, 4];
const PLACES: BarLook["place"][] = ["bottom left", "bottom right", "top left", "top right"];

/**
 * A slice of the active plane, as it is numbered on the page, and a time point; by default those of
 * the view.
 */
export interface Moment {
  slice?: number;
  time?: number;
}

/** The pictures that can be made at a moment, with their caption and the name of their file. */
export interface PictureOf {
  choices: Choice[];
  caption: string;
  /** The name of the file, without its extension. */
  name: string;
}

/** The pictures that can be made of a view. */
export interface Subject {
  /** The pictures of the view at a moment; with `only`, of that channel alone. */
  picturesAt(moment: Moment, only?: Channel): PictureOf;
  /** The images that are shown. */
  images: Channel[];
  /** The axes that a sequence can go along. */
  along: SequenceAxis[];
  hasLine: boolean;
}

/** An axis of a sequence, and its first and last number. */
export interface SequenceAxis {
  says: string;
  key: keyof Moment;
  /** The letter before the number in the names of files. */
  letter: string;
  first: number;
  last: number;
}

/** A picture as a file, and the file's name without its extension. */
interface PictureFile {
  bytes: Uint8Array<ArrayBuffer>;
  name: string;
}

/** The last choices, which the next sheet begins with. */
const kept = {
  factor: 1,
  bar: true,
  length: "",
  place: "bottom left" as BarLook["place"],
  colour: "#ffffff" as Code,
  line: true,
  caption: true,
  beside: false,
};

const ONE_PICTURE = "one picture";

const field = (...parts: (Node | string)[]) => h("div", { className: "field" }, ...parts);

/** A field with one of several texts to choose. */
function choice(
  id: string,
  label: string,
  values: string[],
  now: string,
  chosen: (value: string) => void,
): HTMLSelectElement {
  const options = values.map((value) => h("option", { value, selected: value === now }, value));
  const onchange = () => chosen(select.value);
  const select = h("select", { id, "aria-label": label, onchange }, ...options);
  return select;
}

/** Asks which picture is to be saved, and saves it. */
class PictureSheet {
  readonly dialog: HTMLDialogElement;
  private readonly ending = new AbortController();
  private readonly choices: Choice[];
  /** For each of the choices, its button and its size in words. */
  private readonly radios: HTMLInputElement[];
  private readonly sizes: HTMLElement[];
  private readonly along: HTMLSelectElement;
  private readonly first = this.number("first");
  private readonly last = this.number("last");
  private readonly ends = h(
    "span",
    { className: "field", hidden: true },
    this.first,
    "to",
    this.last,
  );
  private readonly button = h(
    "button",
    { type: "button", autofocus: true, onclick: () => void this.make() },
    "Save picture",
  );

  constructor(
    private readonly subject: Subject,
    private readonly failed: (error: unknown) => void,
  ) {
    const { choices, caption } = subject.picturesAt({});
    this.choices = choices;
    this.radios = choices.map((_, i) => this.radio(i));
    this.sizes = choices.map(() => h("span", {}));
    const axes = subject.along.map(({ says }) => says);
    this.along = choice(
      "sequence",
      "One picture, or a sequence",
      [ONE_PICTURE, ...axes],
      ONE_PICTURE,
      () => this.showEnds(),
    );
    this.dialog = sheet(
      "Picture",
      ...this.radios.map((radio, i) =>
        h("label", { className: "field" }, radio, this.sizes[i] as HTMLElement),
      ),
      field("Factor", this.factor()),
      field(this.tick("with-scale", "bar", "Scale bar"), ...this.barFields()),
      subject.hasLine && this.tick("with-line", "line", "The measured line"),
      subject.images.length > 1 && this.tick("beside", "beside", "Channels beside the merge"),
      this.tick("with-caption", "caption", "Caption: ", h("span", {}, caption)),
      axes.length > 0 && field("Sequence", this.along, this.ends),
      this.button,
    );
    this.dialog.addEventListener("close", () => this.ending.abort());
    this.show();
  }

  private radio(i: number): HTMLInputElement {
    return h("input", {
      type: "radio",
      name: "resolution",
      id: `resolution-${i}`,
      checked: i === 0,
      onchange: () => this.show(),
    });
  }

  private number(end: "first" | "last"): HTMLInputElement {
    return h("input", {
      type: "number",
      id: `sequence-${end}`,
      className: "number short",
      "aria-label": `The ${end} picture of the sequence`,
    });
  }

  /** A box to tick for something that a picture may have. */
  private tick(
    id: string,
    key: "bar" | "line" | "caption" | "beside",
    ...label: (Node | string)[]
  ): HTMLElement {
    const onchange = () => {
      kept[key] = box.checked;
      this.show();
    };
    const box = h("input", { type: "checkbox", id, checked: kept[key], onchange });
    return h("label", { className: "field" }, box, ...label);
  }

  private factor(): HTMLElement {
    const values = FACTORS.map(String);
    return choice("picture-factor", "Factor", values, String(kept.factor), (value) => {
      kept.factor = Number(value);
      this.show();
    });
  }

  /** The fields for the length, the place and the colour of the scale bar. */
  private barFields(): HTMLElement[] {
    const length = h("input", {
      type: "text",
      id: "scale-length",
      className: "number",
      value: kept.length,
      placeholder: "round",
      "aria-label": "Length of the scale bar, such as 10 µm",
      oninput: () => (kept.length = length.value.trim()),
    });
    const place = choice("scale-place", "Place of the scale bar", PLACES, kept.place, (value) => {
      kept.place = value as BarLook["place"];
    });
    const colour = h("input", {
      type: "color",
      id: "scale-colour",
      value: kept.colour,
      "aria-label": "Colour of the scale bar",
      onchange: () => (kept.colour = colour.value as Code),
    });
    return [length, place, colour];
  }

  /** The axis of the sequence; none for one picture. */
  private axis(): SequenceAxis | undefined {
    return this.subject.along.find(({ says }) => says === this.along.value);
  }

  /** Shows the ends of a sequence, which are all of its axis at first. */
  private showEnds(): void {
    const axis = this.axis();
    this.ends.hidden = !axis;
    this.first.value = String(axis?.first ?? "");
    this.last.value = String(axis?.last ?? "");
    this.button.textContent = axis ? "Save pictures" : "Save picture";
  }

  private isBeside(): boolean {
    return kept.beside && this.subject.images.length > 1;
  }

  /** Shows the sizes of the pictures; pictures that are too large cannot be chosen. */
  private show(): void {
    const count = this.isBeside() ? this.subject.images.length + 1 : 1;
    for (const [i, { says, width, height }] of this.choices.entries()) {
      const wide = width * kept.factor * count;
      const high = height * kept.factor;
      const isLarge = wide * high > MAX_PIXELS;
      const size = `${wide.toLocaleString("en")} × ${high.toLocaleString("en")} pixels`;
      const note = isLarge ? " (more than 64 million; zoom in)" : "";
      (this.radios[i] as HTMLInputElement).disabled = isLarge;
      (this.sizes[i] as HTMLElement).textContent = `${says}: ${size}${note}`;
    }
    this.button.disabled = this.radios.every((radio) => radio.disabled || !radio.checked);
  }

  /** The picture of a moment that the person has chosen. */
  private chosen({ choices }: PictureOf): Choice {
    const i = this.radios.findIndex((radio) => radio.checked);
    return choices[Math.max(0, i)] as Choice;
  }

  /** The picture of a moment. */
  private async file(moment: Moment): Promise<PictureFile> {
    const merge = this.subject.picturesAt(moment);
    let picture = this.chosen(merge);
    if (this.isBeside()) {
      const channels = this.subject.images.map((channel): [string, Choice] => [
        labelOf(channel),
        this.chosen(this.subject.picturesAt(moment, channel)),
      ]);
      picture = sideBySide([...channels, ["merge", picture]]);
    }
    const { length, place, colour } = kept;
    const extras: Extras = {
      bar: kept.bar ? { length, place, colour } : null,
      line: kept.line,
      caption: kept.caption ? merge.caption : "",
    };
    const texts = {
      Title: merge.name,
      Description: merge.caption,
      Source: location.href,
      Software: "voltile",
    };
    const bytes = await png(enlarged(picture, kept.factor), extras, texts, this.ending.signal);
    return { bytes, name: merge.name };
  }

  /** The number in a field, within the axis; `otherwise` if the field is empty. */
  private end(field: HTMLInputElement, { first, last }: SequenceAxis, otherwise: number): number {
    const number = field.value === "" ? otherwise : Math.floor(Number(field.value));
    return clamp(number, first, last);
  }

  private async saveSequence(axis: SequenceAxis): Promise<void> {
    const from = this.end(this.first, axis, axis.first);
    const to = this.end(this.last, axis, axis.last);
    const count = Math.abs(to - from) + 1;
    const digits = String(Math.max(from, to)).length;
    const parts: Uint8Array<ArrayBuffer>[] = [];
    const zip = new Zip((error, part) => {
      if (error) this.failed(error);
      else parts.push(part as Uint8Array<ArrayBuffer>);
    });
    let firstName = "";
    for (let i = 0; i < count; i += 1) {
      const number = from <= to ? from + i : from - i;
      this.button.textContent = `Drawing ${i + 1} of ${count} …`;
      const { bytes, name } = await this.file({ [axis.key]: number });
      firstName ||= name;
      // All numbers have the same length, so that sorted names are in order.
      const padded = String(number).padStart(digits, "0");
      // PNG files are compressed already.
      const entry = new ZipPassThrough(`${renumbered(name, axis.letter, number, padded)}.png`);
      zip.add(entry);
      entry.push(bytes, true);
    }
    zip.end();
    const name = renumbered(firstName, axis.letter, from, `${from}-${to}`);
    save(new Blob(parts), "application/zip", `${name}.zip`);
  }

  /** Saves what is chosen, and closes the sheet. */
  private async make(): Promise<void> {
    this.button.disabled = true;
    this.button.textContent = "Drawing …";
    try {
      const axis = this.axis();
      if (axis) {
        await this.saveSequence(axis);
      } else {
        const { bytes, name } = await this.file({});
        save(bytes, "image/png", `${name}.png`);
      }
    } catch (error) {
      if (!this.ending.signal.aborted) this.failed(error);
    }
    this.dialog.close();
  }
}

/**
 * The name of a file with another text in place of the number after a letter: `a_z7_xy_z007` of
 * `a_z7_xy_z7`. The last such number counts, as the token before may have the same.
 */
function renumbered(name: string, letter: string, number: number, text: string): string {
  const start = name.lastIndexOf(`_${letter}${number}`) + 2;
  return name.slice(0, start) + text + name.slice(start + String(number).length);
}

/** The sheet that asks which picture is to be saved. */
export const pictureSheet = (
  subject: Subject,
  failed: (error: unknown) => void,
): HTMLDialogElement => new PictureSheet(subject, failed).dialog;
