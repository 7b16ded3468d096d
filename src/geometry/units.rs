//! Units of length, by the names that files give them.

/// How many nanometres a unit has; `None` where it is not known.
pub fn in_nanometres(unit: &str) -> Option<f64> {
    Some(match unit.to_lowercase().as_str() {
        "nm" | "nanometer" | "nanometers" | "nanometre" | "nanometres" => 1.0,
        "µm" | "μm" | "um" | "micron" | "microns" | "micrometer" | "micrometers" | "micrometre"
        | "micrometres" => 1e3,
        "mm" | "millimeter" | "millimeters" | "millimetre" | "millimetres" => 1e6,
        "cm" | "centimeter" | "centimetre" => 1e7,
        "m" | "meter" | "metre" => 1e9,
        "pm" | "picometer" | "picometre" => 1e-3,
        "å" | "angstrom" | "angstroms" => 0.1,
        _ => return None,
    })
}
