//! Points and directions in the demo tissue.
//!
//! One unit is the width of an EM voxel in x and y; z is counted in the same unit, so that distances are true distances
//! although the voxels are flat. Only `+ - * /` and square roots are used: they give the same bits on every machine.

use std::ops::{Add, Mul, Sub};

/// A point or a direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Vector {
    pub x: f32,
    pub y: f32,
    pub z: f32,
}

impl Vector {
    pub const fn new(x: f32, y: f32, z: f32) -> Self {
        Self { x, y, z }
    }

    pub fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    pub fn cross(self, other: Self) -> Self {
        Self::new(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )
    }

    pub fn length(self) -> f32 {
        self.dot(self).sqrt()
    }

    /// The same direction with length 1; (almost) zero vectors stay (almost) zero.
    pub fn unit(self) -> Self {
        self * (1.0 / self.length().max(1e-6))
    }
}

impl Add for Vector {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl Sub for Vector {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::new(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl Mul<f32> for Vector {
    type Output = Self;
    fn mul(self, factor: f32) -> Self {
        Self::new(self.x * factor, self.y * factor, self.z * factor)
    }
}

/// Three directions at right angles to one another, each of length 1; the first one leads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub along: Vector,
    pub across: Vector,
    pub aside: Vector,
}

impl Frame {
    /// The frame whose leading direction is that of `direction`.
    pub fn leading(direction: Vector) -> Self {
        let along = direction.unit();
        let helper =
            if along.x.abs() < 0.6 { Vector::new(1.0, 0.0, 0.0) } else { Vector::new(0.0, 1.0, 0.0) };
        let across = along.cross(helper).unit();
        Self { along, across, aside: along.cross(across) }
    }

    /// The coordinates of `offset` in this frame.
    pub fn local(&self, offset: Vector) -> Vector {
        Vector::new(offset.dot(self.along), offset.dot(self.across), offset.dot(self.aside))
    }
}

/// A rounded rod: all points within `radius` of the line from `start` to `start + axis`. A ball where `axis` is zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rod {
    start: Vector,
    axis: Vector,
    per_length_squared: f32,
    pub radius: f32,
}

impl Rod {
    /// The rod that reaches `half` to either side of `center`.
    pub fn new(center: Vector, half: Vector, radius: f32) -> Self {
        let axis = half * 2.0;
        Self { start: center - half, axis, per_length_squared: 1.0 / axis.dot(axis).max(1e-6), radius }
    }

    pub fn center(&self) -> Vector {
        self.start + self.axis * 0.5
    }

    pub fn moved(self, way: Vector) -> Self {
        Self { start: self.start + way, ..self }
    }

    /// Its two ends and its middle.
    pub fn stations(&self) -> [Vector; 3] {
        [self.start, self.center(), self.start + self.axis]
    }

    /// From the nearest point of the rod's middle line to `point`.
    pub fn offset(&self, point: Vector) -> Vector {
        let from_start = point - self.start;
        let share = (from_start.dot(self.axis) * self.per_length_squared).clamp(0.0, 1.0);
        from_start - self.axis * share
    }

    /// Distance from the rod's surface, negative inside.
    pub fn distance(&self, point: Vector) -> f32 {
        self.offset(point).length() - self.radius
    }
}
