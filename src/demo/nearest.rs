//! Which rods are nearest to a point, and how far the point is from the border between them: the innermost loop.
//!
//! A row of voxels is compared with the rods at once. The odd thing: the loops have no branches and run over the
//! voxels innermost, which looks roundabout and lets the compiler work on several voxels with each instruction.

use super::vector::{Rod, Vector};

/// How many voxels are compared at once.
pub(super) const ROW: usize = 8;

/// Two distances that differ by more than this: so deep inside that the exact depth does not matter to any painter.
const FAR: f32 = 52.0;

/// The rods that are compared.
pub(super) struct Rods(pub Vec<Rod>);

/// A rod (its place in the list) and its distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Near {
    pub distance: f32,
    pub rod: usize,
}

/// Where a point lies in its cell.
pub(super) struct Depth {
    /// Distance from the cell's border; a little below 0 where three cells meet.
    pub depth: f32,
    /// How much the border leans: 0 where a slice cuts straight across it, 1 where it runs along it.
    pub tilt: f32,
}

impl Rods {
    /// The nearest three rods of each point, the nearest first; numbers beyond the list where there are fewer.
    pub fn nearest(&self, points: &[Vector; ROW]) -> [[Near; 3]; ROW] {
        let (x, y, z) =
            (points.map(|point| point.x), points.map(|point| point.y), points.map(|point| point.z));
        let mut nearest = [NearRow::NOBODY; 3];
        for (rod, number) in self.0.iter().zip(0..) {
            let mut row = NearRow { distance: [0.0; ROW], rod: [number; ROW] };
            for lane in 0..ROW {
                row.distance[lane] = rod.distance(Vector::new(x[lane], y[lane], z[lane]));
            }
            nearest.iter_mut().for_each(|kept| kept.keep_smaller(&mut row));
        }
        std::array::from_fn(|lane| nearest.each_ref().map(|row| row.lane(lane)))
    }

    /// How deep `point` lies in the cell of the first of its nearest rods. Corners between three cells are rounded
    /// over about `rounding`.
    pub fn depth(&self, [first, second, third]: [Near; 3], point: Vector, rounding: f32) -> Depth {
        let second_gap = second.distance - first.distance;
        let third_gap = third.distance - first.distance;
        if second_gap > FAR {
            return Depth { depth: second_gap * 0.5, tilt: 0.0 };
        }
        let own = self.away(first, point);
        let (speed, tilt) = pace(own, self.away(second, point));
        let depth = second_gap / speed;
        // No speed exceeds 2: a third cell farther off than this has no say.
        if third_gap * 0.5 > depth + rounding {
            return Depth { depth, tilt };
        }
        let (speed, _) = pace(own, self.away(third, point));
        Depth { depth: smooth_minimum(depth, third_gap / speed, rounding), tilt }
    }

    /// Like [`Rods::depth`], but smooth far into the cell, for which it is less even near the border.
    pub fn smooth_depth(&self, [first, second, third]: [Near; 3], rounding: f32) -> Depth {
        const USUAL_SPEED: f32 = 1.8;
        let [second, third] = [second, third].map(|near| (near.distance - first.distance) / USUAL_SPEED);
        Depth { depth: smooth_minimum(second, third, rounding), tilt: 0.0 }
    }

    /// The direction from a rod to `point`.
    fn away(&self, near: Near, point: Vector) -> Vector {
        self.0.get(near.rod).map_or(Vector::new(0.0, 0.0, 1.0), |rod| rod.offset(point).unit())
    }
}

/// How fast the difference of two distances grows on the way from the border, and how much that way leans.
///
/// Divided by this speed the difference is the distance from the border, and membranes come out evenly thick.
fn pace(own: Vector, other: Vector) -> (f32, f32) {
    let pace = other - own;
    let speed = pace.length().max(0.3);
    (speed, pace.z.abs() / speed)
}

/// The smaller of two distances, somewhat less where they differ by less than `rounding`.
fn smooth_minimum(first: f32, second: f32, rounding: f32) -> f32 {
    let closeness = (1.0 - (first - second).abs() / rounding).max(0.0);
    first.min(second) - closeness * closeness * rounding * 0.25
}

/// A rod and its distance for each point of a row.
#[derive(Clone, Copy)]
struct NearRow {
    distance: [f32; ROW],
    rod: [u32; ROW],
}

impl NearRow {
    const NOBODY: Self = Self { distance: [f32::INFINITY; ROW], rod: [u32::MAX; ROW] };

    fn lane(&self, lane: usize) -> Near {
        Near { distance: self.distance[lane], rod: self.rod[lane] as usize }
    }

    /// For each point keeps the nearer of the two here and leaves the other one in `other`.
    fn keep_smaller(&mut self, other: &mut Self) {
        for lane in 0..ROW {
            let (distance, rod) = (self.distance[lane], self.rod[lane]);
            let keep = distance <= other.distance[lane];
            self.distance[lane] = if keep { distance } else { other.distance[lane] };
            self.rod[lane] = if keep { rod } else { other.rod[lane] };
            other.distance[lane] = if keep { other.distance[lane] } else { distance };
            other.rod[lane] = if keep { other.rod[lane] } else { rod };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ball(x: f32, radius: f32) -> Rod {
        Rod::new(Vector::new(x, 0.0, 0.0), Vector::new(0.0, 0.0, 0.0), radius)
    }

    #[test]
    fn the_nearest_three_come_in_order() {
        let rods = Rods([90.0, 10.0, 50.0, 30.0, 70.0].map(|x| ball(x, 1.0)).to_vec());
        let nearest = rods.nearest(&[Vector::new(26.0, 0.0, 0.0); ROW]);
        let expected = [(3.0, 3), (15.0, 1), (23.0, 2)].map(|(distance, rod)| Near { distance, rod });
        assert_eq!(nearest, [expected; ROW]);
    }

    #[test]
    fn depth_is_the_distance_from_the_border_of_two_cells() {
        let rods = Rods(vec![ball(0.0, 0.0), ball(40.0, 0.0), ball(500.0, 0.0)]);
        for (x, expected) in [(12.0, 8.0), (17.5, 2.5), (20.0, 0.0)] {
            let point = Vector::new(x, 3.0, 0.0);
            let found = rods.depth(rods.nearest(&[point; ROW])[0], point, 9.0);
            assert!((found.depth - expected).abs() < 0.3, "{} instead of {expected}", found.depth);
            assert!(found.tilt < 0.01);
        }
    }

    #[test]
    fn a_border_along_the_slice_has_tilt_1() {
        let rods = Rods(
            [-20.0, 20.0]
                .map(|z| Rod::new(Vector::new(0.0, 0.0, z), Vector::new(1.0, 0.0, 0.0), 0.0))
                .to_vec(),
        );
        let point = Vector::new(0.0, 0.0, 5.0);
        assert!(rods.depth(rods.nearest(&[point; ROW])[0], point, 9.0).tilt > 0.99);
    }
}
