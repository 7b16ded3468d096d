// Tables of colour maps, which the bundler puts into the page.
declare module "*.lut" {
  const table: Uint8Array;
  export default table;
}
