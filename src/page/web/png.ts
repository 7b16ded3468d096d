// Texts inside PNG files.

/** The length of a PNG's signature (8 bytes) and its first chunk `IHDR` (25 bytes). */
const HEADER = 33;

/** The checksum of a PNG's chunks (CRC-32). */
function checksum(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return (sum ^ 0xffffffff) >>> 0;
}

/**
 * A chunk `iTXt`: the length of its data, its type, its data, and a checksum of both. The data is
 * the keyword, a zero, two zeros for no compression, a zero each after the empty language and
 * translated keyword, and the text in UTF-8.
 */
function textChunk(keyword: string, text: string): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(`iTXt${keyword}\0\0\0\0\0${text}`);
  const chunk = new Uint8Array(body.length + 8);
  const view = new DataView(chunk.buffer);
  view.setUint32(0, body.length - "iTXt".length);
  chunk.set(body, 4);
  view.setUint32(body.length + 4, checksum(body));
  return chunk;
}

/** A PNG with texts, by keyword, after its header. */
export async function withTexts(
  png: Blob,
  texts: Record<string, string>,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks = Object.entries(texts).map(([keyword, text]) => textChunk(keyword, text));
  const whole = new Blob([png.slice(0, HEADER), ...chunks, png.slice(HEADER)]);
  return new Uint8Array(await whole.arrayBuffer());
}
