//! Rods scattered in space and the Voronoi cells around them (Worley noise).

use super::noise::{Point, direction, dot, floor, hash, length, moved, rehash, unit};

/// All points within `radius` of a line that reaches `half_length` to either side of `center`.
#[derive(Default)]
pub(super) struct Rod {
    pub id: u32,
    pub center: Point,
    pub axis: Point,
    pub half_length: f32,
    pub radius: f32,
    /// Whether the depth of its cell is smooth far inside, for layers, rather than exact near the
    /// border.
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
        let center = moved(middle, signed_units(id), jitter).map(|it| it * edge);
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

    /// The vector from its line to `point`, and the distance of `point` from its surface, negative
    /// inside.
    pub fn away(&self, point: Point) -> (Point, f32) {
        let way = moved(point, self.center, -1.0);
        let along = dot(way, self.axis).clamp(-self.half_length, self.half_length);
        let way = moved(way, self.axis, -along);
        (way, length(way) - self.radius)
    }
}

/// A hash as three numbers in [-1, 1).
#[inline]
fn signed_units(bits: u32) -> Point {
    [bits, rehash(bits), rehash(rehash(bits))].map(|bits| 2.0 * unit(bits) - 1.0)
}

/// Rods without length and radius in all cubes over `extents` and some beyond, so that the edges
/// look like the middle. Ids count from 1.
pub(super) fn scatter(extents: Point, edge: f32, salt: u32) -> impl Iterator<Item = Rod> {
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
pub(super) struct Cell<'a> {
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
    pub fn containing(point: Point, rods: &[&'a Rod]) -> Self {
        let mut near = [(1e6, rods[0]); 3];
        for rod in rods {
            let mut next = (rod.away(point).1, *rod);
            for kept in &mut near {
                if next.0 < kept.0 {
                    std::mem::swap(kept, &mut next);
                }
            }
        }
        let ways = near.map(|it| {
            moved(
                [0.0; 3],
                it.1.away(point).0,
                1.0 / (it.0 + it.1.radius).max(1e-6),
            )
        });
        let [(distance, rod), (_, neighbour), _] = near;
        // The difference of two distances, divided by how fast it grows away from the border.
        let apart = [1, 2].map(|i| moved(ways[i], ways[0], -1.0));
        let speed = apart.map(|way| {
            if rod.layered {
                1.8
            } else {
                length(way).max(0.3)
            }
        });
        let depths = [0, 1].map(|i| (near[i + 1].0 - distance) / speed[i]);
        let tilt = if rod.layered {
            0.0
        } else {
            apart[0][2] * apart[0][2] / (speed[0] * speed[0])
        };
        // Where three cells meet, corners are rounded.
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
