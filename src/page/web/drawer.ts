// An exact variant of OpenSeadragon's canvas drawer, which draws tiles a pixel too large to hide
// seams and so shifts pixels. Here tile edges are rounded to screen pixels: adjacent tiles meet,
// and 1:1 is pixel for pixel.
//
// `_drawTile` is not part of the library's public interface. The version is pinned, and the browser
// test compares pixels.

import OpenSeadragon from "openseadragon";

/**
 * The screen pixel nearest to a CSS length. Halves round up, even if slightly less because of
 * rounding errors.
 */
const edge = (length: number): number =>
  Math.floor(length * OpenSeadragon.pixelDensityRatio + 0.501);

interface DrawnTile {
  loaded: boolean;
  opacity: number;
  position: OpenSeadragon.Point;
  size: OpenSeadragon.Point;
  sourceBounds: OpenSeadragon.Rect;
}

export class ExactDrawer extends OpenSeadragon.CanvasDrawer {
  minimumOverlapRequired(): boolean {
    return false;
  }

  _drawTile(tile: DrawnTile, _image: unknown, useSketch: boolean): void {
    const self = this as unknown as {
      getDataToDraw(tile: DrawnTile): CanvasRenderingContext2D | undefined;
      _getContext(useSketch: boolean): CanvasRenderingContext2D;
    };
    const data = tile.loaded ? self.getDataToDraw(tile) : undefined;
    if (!data) return;
    const { position, size } = tile;
    const left = edge(position.x);
    const top = edge(position.y);
    const right = edge(position.x + size.x);
    const bottom = edge(position.y + size.y);
    const context = self._getContext(useSketch);
    context.save();
    context.globalAlpha *= tile.opacity;
    // Coarser tiles drawn before must neither show through nor add up.
    if (tile.opacity === 1) context.clearRect(left, top, right - left, bottom - top);
    const { width, height } = tile.sourceBounds;
    context.drawImage(
      data.canvas,
      0,
      0,
      width,
      height,
      left,
      top,
      Math.max(1, right - left),
      Math.max(1, bottom - top),
    );
    context.restore();
  }
}
