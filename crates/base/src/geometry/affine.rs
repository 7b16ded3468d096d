//! Where voxels lie in space: affine transforms from the indices of voxels to positions.

use super::Xyz;

/// Smaller components of a direction, and smaller shears, are rounding errors.
const CLOSE: f64 = 1e-6;
/// Lengths that differ by less than this part of a voxel are equal.
const VOXEL_TOLERANCE: f64 = 1e-3;
/// Voxels are flat if their volume is at most this part of the product of their edges' lengths.
const FLAT: f64 = 1e-9;

type Vector3 = [f64; 3];

/// A transform from indices of voxels (x, y, z) at level 0 to positions in space. It can be
/// inverted. Index 0 is the centre of the first voxel.
///
/// The rows compute the x, y and z of a position. A row `[a, b, c, shift]` stands for
/// `a * x + b * y + c * z + shift`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine([[f64; 4]; 3]);

/// The transform of each time point: none if it is unknown; else transforms, each with the time
/// point from which it holds, in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transforms(Vec<(u64, Affine)>);

/// A transform taken apart: voxels are scaled, then sheared, then turned, then moved.
struct AffineParts {
    scale: Vector3,
    /// How far x moves for each unit of y, x for each unit of z, and y for each unit of z.
    shear: Vector3,
    /// The directions of the axes, at right angles, each of length 1.
    axes: [Vector3; 3],
}

impl Affine {
    /// The transform that changes nothing.
    pub const IDENTITY: Self = Self::scaling(Xyz::new(1.0, 1.0, 1.0));

    /// The transform of voxels of this size along the axes of space. The centre of the first voxel
    /// is the origin.
    pub const fn scaling(voxel: Xyz<f64>) -> Self {
        Self([
            [voxel.x, 0.0, 0.0, 0.0],
            [0.0, voxel.y, 0.0, 0.0],
            [0.0, 0.0, voxel.z, 0.0],
        ])
    }

    /// From the rows; `None` unless all numbers are finite and voxels have a volume.
    pub fn new(rows: [[f64; 4]; 3]) -> Option<Self> {
        let affine = Self(rows);
        let volume_if_upright: f64 = <[f64; 3]>::from(affine.lengths()).iter().product();
        let is_finite = rows.iter().flatten().all(|number| number.is_finite());
        (is_finite && affine.determinant().abs() > FLAT * volume_if_upright).then_some(affine)
    }

    /// The transform of voxels whose edges along x, y and z are the given vectors. `first` is the
    /// centre of the first voxel.
    pub fn from_edges([x, y, z]: [Vector3; 3], first: Xyz<f64>) -> Option<Self> {
        let first: Vector3 = first.into();
        Self::new(std::array::from_fn(|row| {
            [x[row], y[row], z[row], first[row]]
        }))
    }

    /// The rows of x, y and z.
    pub fn rows(&self) -> [[f64; 4]; 3] {
        self.0
    }

    /// The edges of a voxel along x, y and z.
    fn edges(&self) -> [Vector3; 3] {
        std::array::from_fn(|column| self.0.map(|row| row[column]))
    }

    /// The lengths of a voxel's edges along x, y and z.
    pub fn lengths(&self) -> Xyz<f64> {
        self.edges().map(length).into()
    }

    /// The centre of the first voxel.
    pub fn translation(&self) -> Xyz<f64> {
        self.0.map(|row| row[3]).into()
    }

    /// The position of an index.
    pub fn apply(&self, at: Xyz<f64>) -> Xyz<f64> {
        self.0
            .map(|[x, y, z, shift]| x * at.x + y * at.y + z * at.z + shift)
            .into()
    }

    /// The transform that applies `other` first, then this one.
    pub fn after(&self, other: &Self) -> Self {
        Self(self.0.map(|row| {
            let mut product = std::array::from_fn(|column| {
                (0..3).map(|i| row[i] * other.0[i][column]).sum::<f64>()
            });
            // As a 4 × 4 matrix, `other` has the last row 0, 0, 0, 1.
            product[3] += row[3];
            product
        }))
    }

    /// From positions to indices.
    pub fn inverse(&self) -> Self {
        let [x, y, z] = self.edges();
        let shift = self.translation().into();
        // The rows of the inverse of the matrix with the columns x, y and z.
        let rows =
            [cross(y, z), cross(z, x), cross(x, y)].map(|row| row.map(|n| n / self.determinant()));
        Self(rows.map(|row| [row[0], row[1], row[2], -dot(row, shift)]))
    }

    /// Converts to a smaller unit; `count` new units make one old unit.
    pub fn in_unit(&self, count: f64) -> Self {
        Self(self.0.map(|row| row.map(|number| number * count)))
    }

    /// The transform of voxels that are smaller by these factors. The first voxel keeps its
    /// position.
    pub fn divided(&self, by: Xyz<f64>) -> Self {
        Self(
            self.0
                .map(|[x, y, z, shift]| [x / by.x, y / by.y, z / by.z, shift]),
        )
    }

    /// The transform of a volume whose first voxel is the one at this index.
    pub fn beginning_at(&self, index: Xyz<f64>) -> Self {
        let shift: Vector3 = self.apply(index).into();
        let mut rows = self.0;
        for (row, shift) in rows.iter_mut().zip(shift) {
            row[3] = shift;
        }
        Self(rows)
    }

    /// Whether the transform only moves voxels: the factors of each index differ from those of the
    /// identity by at most the `tolerance` for that index.
    pub fn only_moves(&self, tolerance: Xyz<f64>) -> bool {
        let tolerance: Vector3 = tolerance.into();
        let mut rows = self.0.iter().zip(&Self::IDENTITY.0);
        rows.all(|(own, identity)| {
            (0..3).all(|axis| (own[axis] - identity[axis]).abs() <= tolerance[axis])
        })
    }

    fn determinant(&self) -> f64 {
        let [x, y, z] = self.edges();
        dot(x, cross(y, z))
    }

    /// Takes the transform apart by the method of Gram and Schmidt: x keeps its direction, and y
    /// the plane that it spans with x.
    fn parts(&self) -> AffineParts {
        let [x, y, z] = self.edges();
        let x_axis = scaled(x, 1.0 / length(x));
        let y_on_x = dot(x_axis, y);
        let y_upright = minus(y, scaled(x_axis, y_on_x));
        let y_axis = scaled(y_upright, 1.0 / length(y_upright));
        let z_on_x = dot(x_axis, z);
        let z_on_y = dot(y_axis, z);
        let z_upright = minus(minus(z, scaled(x_axis, z_on_x)), scaled(y_axis, z_on_y));
        let scale = [x, y_upright, z_upright].map(length);
        AffineParts {
            scale,
            shear: [y_on_x / scale[1], z_on_x / scale[2], z_on_y / scale[2]],
            axes: [x_axis, y_axis, scaled(z_upright, 1.0 / scale[2])],
        }
    }

    /// The transform in words, such as `sheared by 0.5 (x for y); moved by 5, 0, 0 µm (x, y, z)`.
    /// The scaling by the size of a voxel (`voxel`, if it is known) is left out; `None` if the
    /// transform does nothing else. Lengths are in `unit`.
    fn in_words(&self, voxel: Option<Xyz<f64>>, unit: &str) -> Option<String> {
        let parts = self.parts();
        let expected = voxel.map_or(parts.scale, Into::into);
        let factors: Vector3 = std::array::from_fn(|axis| parts.scale[axis] / expected[axis]);
        let moved: Vector3 = self.translation().into();
        let is_moved = (0..3).any(|axis| moved[axis].abs() > VOXEL_TOLERANCE * parts.scale[axis]);
        let is_scaled = factors
            .iter()
            .any(|factor| (factor - 1.0).abs() > VOXEL_TOLERANCE);
        let words: Vec<String> = [
            is_scaled.then(|| format!("scaled by {} (x, y, z)", listed(&factors))),
            parts.shear_in_words(),
            parts.rotation_in_words(),
            is_moved.then(|| format!("moved by {} {unit} (x, y, z)", listed(&moved))),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

impl AffineParts {
    /// Like `sheared by 0.5 (x for y)`; `None` if nothing is sheared.
    fn shear_in_words(&self) -> Option<String> {
        let named = self.shear.iter().zip(["x for y", "x for z", "y for z"]);
        let words: Vec<String> = named
            .filter(|(shear, _)| shear.abs() > CLOSE)
            .map(|(shear, name)| format!("{} ({name})", six_digits(*shear)))
            .collect();
        (!words.is_empty()).then(|| format!("sheared by {}", words.join(", ")))
    }

    /// The axes of space along which the axes of the volume run, or a rotation; `None` if each runs
    /// along the axis of the same name.
    fn rotation_in_words(&self) -> Option<String> {
        let names: Option<Vec<String>> = self.axes.iter().map(axis_along).collect();
        if let Some(names) = names {
            let is_usual = names.iter().eq(&["+x", "+y", "+z"]);
            return (!is_usual)
                .then(|| format!("its axes x, y, z run along {} of space", names.join(", ")));
        }
        let [x, y, z] = self.axes;
        let is_mirrored = dot(x, cross(y, z)) < 0.0;
        let (mirrored, turned_z) = if is_mirrored {
            ("mirrored along z; ", scaled(z, -1.0))
        } else {
            ("", z)
        };
        let (about, degrees) = rotation([x, y, turned_z]);
        Some(format!(
            "{mirrored}rotated by {}° about the axis {}",
            six_digits(degrees),
            listed(&about)
        ))
    }
}

impl Transforms {
    /// From the transforms of time points in ascending order; each holds until the next.
    pub fn by_time(all: impl IntoIterator<Item = (u64, Affine)>) -> Self {
        let mut changes: Vec<(u64, Affine)> = all.into_iter().collect();
        changes.dedup_by_key(|(_, transform)| *transform);
        Self(changes)
    }

    /// The transform of the first time point; `None` if it is unknown.
    pub fn first(&self) -> Option<&Affine> {
        self.0.first().map(|(_, transform)| transform)
    }

    /// The transform that holds at a time point; before all listed time points, the first one.
    /// `None` if it is unknown.
    pub fn at(&self, time: u64) -> Option<&Affine> {
        let before = self.0.iter().rfind(|(from, _)| *from <= time);
        before.or(self.0.first()).map(|(_, transform)| transform)
    }

    /// The transforms, each with the time point from which it holds.
    pub fn iter(&self) -> impl Iterator<Item = &(u64, Affine)> {
        self.0.iter()
    }

    /// Whether time points have different transforms.
    pub fn vary(&self) -> bool {
        self.0.len() > 1
    }

    /// The transforms, each changed by `change`.
    #[must_use]
    pub fn map(&self, change: impl Fn(&Affine) -> Affine) -> Self {
        Self(
            self.0
                .iter()
                .map(|(time, transform)| (*time, change(transform)))
                .collect(),
        )
    }

    /// The transforms in words, without the scaling by the size of a voxel (`voxel`, if it is
    /// known); `None` if they do nothing else, or are unknown. Lengths are in `unit`.
    pub fn in_words(&self, voxel: Option<Xyz<f64>>, unit: &str) -> Option<String> {
        let first = self.first()?.in_words(voxel, unit);
        match (self.vary(), first) {
            (true, Some(words)) => {
                Some(format!("{words}; other time points have other transforms"))
            }
            (true, None) => Some(
                "nothing at the first time point; other time points have transforms".to_owned(),
            ),
            (false, words) => words,
        }
    }
}

impl From<Option<Affine>> for Transforms {
    fn from(known: Option<Affine>) -> Self {
        Self(known.map(|transform| (0, transform)).into_iter().collect())
    }
}

/// The axis and the angle, in degrees, of the rotation that takes the axes of space to `axes`, the
/// columns of its matrix R.
fn rotation(axes: [Vector3; 3]) -> (Vector3, f64) {
    let [x, y, z] = axes;
    // R less its transpose: the axis times twice the sine of the angle.
    let skew = [y[2] - z[1], z[0] - x[2], x[1] - y[0]];
    // (trace of R − 1) / 2.
    let cosine = f64::midpoint(x[0] + y[1] + z[2], -1.0);
    let degrees = (length(skew) / 2.0).atan2(cosine).to_degrees();
    // Near half a turn the sine does not tell the axis. Each column of R plus its transpose, less
    // twice the cosine on the diagonal, is a multiple of the axis: the longest is the most exact.
    let longest = (0..3)
        .map(|column| -> Vector3 {
            std::array::from_fn(|row| {
                let diagonal = if row == column { 2.0 * cosine } else { 0.0 };
                axes[column][row] + axes[row][column] - diagonal
            })
        })
        .max_by(|a, b| length(*a).total_cmp(&length(*b)))
        .unwrap_or_default();
    let sign = if dot(longest, skew) < 0.0 { -1.0 } else { 1.0 };
    (scaled(longest, sign / length(longest)), degrees)
}

/// The axis of space along which a unit vector runs, as in `-y`; `None` if it runs along none.
fn axis_along(direction: &Vector3) -> Option<String> {
    let axis = (0..3)
        .find(|axis| (0..3).all(|other| other == *axis || direction[other].abs() <= CLOSE))?;
    let sign = if direction[axis] > 0.0 { '+' } else { '-' };
    Some(format!("{sign}{}", ['x', 'y', 'z'][axis]))
}

/// The numbers as text. Numbers that are tiny beside the largest are rounding errors, and shown as
/// 0.
fn listed(numbers: &Vector3) -> String {
    let largest = numbers
        .iter()
        .fold(0.0, |largest: f64, number| largest.max(number.abs()));
    let without_errors = numbers.map(|number| {
        if number.abs() < CLOSE * largest {
            0.0
        } else {
            number
        }
    });
    without_errors.map(six_digits).join(", ")
}

/// A number rounded to six significant digits, as text.
fn six_digits(number: f64) -> String {
    format!("{number:.5e}")
        .parse()
        .unwrap_or(number)
        .to_string()
}

fn dot(a: Vector3, b: Vector3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Vector3, b: Vector3) -> Vector3 {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn length(a: Vector3) -> f64 {
    dot(a, a).sqrt()
}

fn scaled(a: Vector3, by: f64) -> Vector3 {
    a.map(|part| part * by)
}

fn minus(a: Vector3, b: Vector3) -> Vector3 {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEW: [[f64; 4]; 3] = [
        [0.5, 0.1, -0.3, 7.0],
        [0.2, 0.4, 0.0, -2.0],
        [0.0, 0.3, 2.0, 11.0],
    ];

    fn words(rows: [[f64; 4]; 3]) -> Option<String> {
        Transforms::from(Affine::new(rows)).in_words(Some(Xyz::all(1.0)), "µm")
    }

    /// Rotation by an angle about x, y and z of length 1 (Rodrigues).
    fn turned([x, y, z]: [f64; 3], degrees: f64) -> [[f64; 4]; 3] {
        let (sine, cosine) = degrees.to_radians().sin_cos();
        let rest = 1.0 - cosine;
        [
            [
                cosine + x * x * rest,
                x * y * rest - z * sine,
                x * z * rest + y * sine,
                0.0,
            ],
            [
                y * x * rest + z * sine,
                cosine + y * y * rest,
                y * z * rest - x * sine,
                0.0,
            ],
            [
                z * x * rest - y * sine,
                z * y * rest + x * sine,
                cosine + z * z * rest,
                0.0,
            ],
        ]
    }

    #[test]
    fn the_inverse_leads_back_and_flat_transforms_have_none() {
        let skew = Affine::new(SKEW).unwrap();
        let point = Xyz::new(3.0, -4.0, 5.0);
        let back = skew
            .inverse()
            .apply(skew.apply(point))
            .zip(point, |a, b| (a - b).abs());
        assert!(back.map(|away| away < 1e-12).everywhere(), "{back:?}");
        assert!(skew.inverse().after(&skew).only_moves(Xyz::all(1e-12)));
        assert_eq!(skew.beginning_at(point).translation(), skew.apply(point));
        let flat = [
            [1.0, 2.0, 0.0, 0.0],
            [2.0, 4.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
        ];
        assert_eq!(
            (Affine::new(flat), Affine::new([[f64::NAN; 4]; 3])),
            (None, None)
        );
    }

    #[test]
    fn rotations_have_an_axis_and_an_angle_up_to_half_a_turn() {
        let axis = [0.6, 0.0, 0.8];
        for degrees in [0.01, 30.0, 90.0, 150.0, 179.99, 180.0] {
            let expected = format!("rotated by {degrees}° about the axis 0.6, 0, 0.8");
            assert_eq!(words(turned(axis, degrees)), Some(expected));
        }
    }

    #[test]
    fn shear_scale_and_mirroring_are_told_from_rotation() {
        let [[a, b, c, _], [d, e, f, _], [g, h, i, _]] = turned([0.6, 0.0, 0.8], 30.0);
        let mirrored = words([[a, b, -c, 0.0], [d, e, -f, 0.0], [g, h, -i, 0.0]]).unwrap();
        assert_eq!(
            mirrored,
            "mirrored along z; rotated by 30° about the axis 0.6, 0, 0.8"
        );
        let mixed = [
            [2.0, 0.5, 0.0, 0.0],
            [0.0, 1.0, 0.25, 0.0],
            [0.0, 0.0, 1.0, 1e-9],
        ];
        assert_eq!(
            words(mixed).unwrap(),
            "scaled by 2, 1, 1 (x, y, z); sheared by 0.5 (x for y), 0.25 (y for z)"
        );
        assert_eq!(words(Affine::IDENTITY.rows()), None);
    }
}
