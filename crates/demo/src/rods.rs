//! Rods scattered in space and the Voronoi cells around them (Worley noise).

use super::noise::{Point, direction, dot, floor, hash, length, rehash, shift, unit, vector};

/// All points within `radius` of a line that reaches `half_length` to either side of `center`.
#[derive(Default)]
pub(crate) struct Rod {
    pub id: u32,
    pub center: Point,
    pub axis: Point,
    pub half_length: f32,
    pub radius: f32,
    /// Whether the [depth](Cell::depth) in its cell is smooth far inside, as layers of myelin need,
    /// rather than exact near the border.
    pub layered: bool,
}

impl Rod {
    /// The rod, still without length and radius, in the cube around `point` of a grid. Its center
    /// is up to `jitter` edges off the middle of the cube.
    #[inline]
    pub fn new(point: Point, edge: f32, jitter: f32, salt: u32) -> Self {
        let cube = point.map(|it| floor(it * (1.0 / edge)));
        let id = hash(cube, salt);
        let middle = cube.map(|step| step as f32 + 0.5);
        let center = shift(middle, signed_units(id), jitter).map(|it| it * edge);
        Self {
            id,
            center,
            axis: direction(signed_units(id.rotate_left(16))),
            ..Self::default()
        }
    }

    /// A number in [0, 1) of this rod; `salt` tells its uses apart.
    pub fn dice(&self, salt: u32) -> f32 {
        unit(hash([self.id as i32, 0, 0], salt))
    }

    /// Where `point` lies: the vector to it from the rod's line, and its distance from the rod's
    /// surface, negative inside.
    pub fn away(&self, point: Point) -> (Point, f32) {
        let from_center = vector(self.center, point);
        let along = dot(from_center, self.axis).clamp(-self.half_length, self.half_length);
        let from_line = shift(from_center, self.axis, -along);
        (from_line, length(from_line) - self.radius)
    }
}

/// A hash as three numbers in [-1, 1).
#[inline]
fn signed_units(bits: u32) -> Point {
    [bits, rehash(bits), rehash(rehash(bits))].map(|bits| 2.0 * unit(bits) - 1.0)
}

/// Rods without length and radius in all cubes over `extents` and some beyond, so that the edges
/// look like the middle. Ids count from 1.
pub(crate) fn scatter(extents: Point, edge: f32, salt: u32) -> impl Iterator<Item = Rod> {
    // Two cubes lie before the extents, so the middle of the first one is at -1.5 edges; two lie
    // behind them, and one contains their end.
    let [columns, rows, layers] = extents.map(|length| (length / edge) as usize + 5);
    (0..columns * rows * layers).map(move |i| {
        let cube = [i % columns, i / columns % rows, i / columns / rows];
        let middle = cube.map(|step| (step as f32 - 1.5) * edge);
        Rod {
            id: i as u32 + 1,
            ..Rod::new(middle, edge, 0.35, salt)
        }
    })
}

/// Where a point lies in the Voronoi cell of the nearest rod.
pub(crate) struct Cell<'a> {
    pub rod: &'a Rod,
    pub neighbour: &'a Rod,
    /// Distance from the rod's surface.
    pub distance: f32,
    /// Distance from the border with other cells; a little below 0 where three cells meet.
    pub depth: f32,
    /// 0 where slices cut the border straight across, 1 where the border lies along them.
    pub tilt: f32,
}

impl<'a> Cell<'a> {
    /// Where a point lies; the nearest three rods must be among `rods`.
    pub fn containing(point: Point, rods: &[&'a Rod]) -> Self {
        // The nearest rods, and the distances from their surfaces, in order of distance.
        let mut nearest = [(1e6, rods[0]); 3];
        for rod in rods {
            let mut next = (rod.away(point).1, *rod);
            for known in &mut nearest {
                if next.0 < known.0 {
                    std::mem::swap(known, &mut next);
                }
            }
        }
        // The directions away from the rods: along each, the distance from its rod grows by 1.
        let directions = nearest.map(|(distance, rod)| {
            let from_line = rod.away(point).0;
            shift([0.0; 3], from_line, 1.0 / (distance + rod.radius).max(1e-6))
        });
        let [(distance, rod), (_, neighbour), _] = nearest;
        // The difference of the distances from another rod and from the nearest one is 0 at the
        // border of their cells. Divided by its growth with each step away from the border, it is
        // the distance from the border. The growth is at most 2; a constant one keeps the depth
        // smooth.
        let slopes = [1, 2].map(|other| vector(directions[0], directions[other]));
        let growth = slopes.map(|slope| {
            if rod.layered {
                1.8
            } else {
                length(slope).max(0.3)
            }
        });
        let depths = [0, 1].map(|i| (nearest[i + 1].0 - distance) / growth[i]);
        let tilt = if rod.layered {
            0.0
        } else {
            slopes[0][2] * slopes[0][2] / (growth[0] * growth[0])
        };
        // Corners, where three cells meet, are rounded. `closeness` is 1 where both depths are
        // equal, and 0 where they differ by 12 or more.
        let closeness = (1.0 - (depths[0] - depths[1]).abs() * (1.0 / 12.0)).max(0.0);
        let depth = depths[0].min(depths[1]) - 3.0 * closeness * closeness;
        Self {
            rod,
            neighbour,
            distance,
            depth,
            tilt,
        }
    }
}
