//! Units of length: the symbols found in files and settings, and their sizes in nanometres. Also
//! numbers of bytes as text.

/// Nanometres per micrometre.
pub const MICROMETRE: f64 = 1e3;

/// Each unit's usual symbol, its nanometres, and its other spellings in lower case.
const UNITS: [(&str, f64, &str); 7] = [
    ("pm", 1e-3, "picometer picometers picometre picometres"),
    ("Å", 0.1, "å angstrom angstroms"),
    ("nm", 1.0, "nanometer nanometers nanometre nanometres"),
    (
        "µm",
        MICROMETRE,
        "um μm micron microns micrometer micrometers micrometre micrometres",
    ),
    ("mm", 1e6, "millimeter millimeters millimetre millimetres"),
    ("cm", 1e7, "centimeter centimeters centimetre centimetres"),
    ("m", 1e9, "meter meters metre metres"),
];

/// The unit's usual symbol; unknown units are unchanged.
pub fn usual(unit: &str) -> String {
    known(unit).map_or(unit, |(symbol, _)| symbol).to_owned()
}

/// The unit's size in nanometres, if it is known.
pub fn in_nanometres(unit: &str) -> Option<f64> {
    known(unit).map(|(_, nanometres)| nanometres)
}

/// The unit's size in nanometres; 1 if there is no unit, or it is unknown.
pub fn nanometres(unit: Option<&str>) -> f64 {
    unit.and_then(in_nanometres).unwrap_or(1.0)
}

fn known(unit: &str) -> Option<(&'static str, f64)> {
    let lower = unit.to_lowercase();
    UNITS
        .iter()
        .find(|(symbol, _, words)| *symbol == lower || words.split(' ').any(|word| word == lower))
        .map(|(symbol, nanometres, _)| (*symbol, *nanometres))
}

/// A number of bytes for people, in KiB, MiB and so on.
pub fn bytes(count: u64) -> String {
    bytesize::ByteSize::b(count).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_recognised_by_symbol_or_name_and_others_are_unchanged() {
        for (written, symbol, nanometres) in [
            ("um", "µm", 1e3),
            ("Microns", "µm", 1e3),
            ("metre", "m", 1e9),
            ("MM", "mm", 1e6),
            ("Å", "Å", 0.1),
        ] {
            assert_eq!(
                (usual(written).as_str(), in_nanometres(written)),
                (symbol, Some(nanometres))
            );
        }
        assert_eq!(
            (usual("Pixel").as_str(), in_nanometres("Pixel")),
            ("Pixel", None)
        );
    }
}
