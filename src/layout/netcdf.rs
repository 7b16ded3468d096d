//! netCDF-4 files, and the attributes by which the CF conventions describe the values of a
//! variable.
//!
//! Source: Unidata, "NetCDF Users Guide", Appendix A "Attribute Conventions", and the "CF Metadata
//! Conventions", sections 2.5.1 (missing data), 3.5 (flags) and 8.1 (packed data). `_FillValue` and
//! `missing_value` stand for missing data. `_Unsigned` says that signed integers stand for unsigned
//! ones. `flag_values` with `flag_meanings` are categories. `scale_factor` and `add_offset` are not
//! applied: a notice gives the formula. HDF-EOS and other programs write the same attributes. The
//! dimensions are read by [`super::dimensions`].
//!
//! Example: a variable with the `_FillValue` -9999, the `scale_factor` 0.01 and the `units` kelvin
//! shows stored values, -9999 as missing, with the notice "stored values × 0.01 are kelvin".

use voltile_base::notice::Notice;
use voltile_base::paint::Number;
use voltile_hdf5::volume::VoxelType;
use voltile_hdf5::volume::hdf5::Attributes;

use super::contents::About;
use super::marks::Marks;

/// Attributes with values that stand for missing data: of netCDF, HDF-EOS, NEON and GDAL.
const MISSING: [&str; 9] = [
    "_FillValue",
    "missing_value",
    "MissingValue",
    "FillValue",
    "fill_value",
    "Data_Ignore_Value",
    "NoData",
    "no_data",
    "nodata",
];
/// Attributes that only libnetcdf writes.
const ONLY_OF_LIBNETCDF: [&str; 2] = ["_Netcdf4Coordinates", "_Netcdf4Dimid"];

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let own = &about.attributes;
    let is_netcdf = ONLY_OF_LIBNETCDF.iter().any(|name| own.has(name))
        || about.file.attributes("/").has("_NCProperties");
    let because = is_netcdf.then(|| format!("{} is a netCDF variable", about.path));
    let is_flags = about.is_integer() && own.has("flag_values") && own.has("flag_meanings");
    let is_unsigned = own.text("_Unsigned").is_some_and(|text| text == "true");
    let reinterpret_as = about
        .dataset
        .stored
        .voxel
        .unsigned()
        .filter(|_| is_unsigned);
    Some(Marks {
        because,
        reinterpret_as,
        label: own.text("long_name"),
        missing: missing(own)
            .into_iter()
            .map(|number| as_unsigned(number, reinterpret_as))
            .collect(),
        notices: packing(own).into_iter().map(Notice::warning).collect(),
        ..Marks::labels_if(is_flags, "it has flag_values and flag_meanings")
    })
}

/// The values that stand for missing data.
pub(super) fn missing(attributes: &Attributes) -> Vec<Number> {
    let mut missing = Vec::new();
    for name in MISSING {
        match attributes.exact_numbers(name) {
            Some(numbers) => missing.extend(numbers),
            None => {
                let texts = attributes.texts(name).unwrap_or_default();
                missing.extend(texts.iter().filter_map(|text| Number::parse(text.trim())));
            }
        }
    }
    missing
}

/// A missing value as it reads in the `unsigned` type, if the dataset is read as this type: -1 is
/// 255 in 8 bits.
fn as_unsigned(number: Number, unsigned: Option<VoxelType>) -> Number {
    match (number, unsigned) {
        (Number::Whole(whole), Some(voxel)) => {
            Number::Whole(whole.rem_euclid(1 << (8 * voxel.stored_bytes())))
        }
        _ => number,
    }
}

/// States by which formula packed values are unpacked; `None` if they are not packed.
fn packing(attributes: &Attributes) -> Option<String> {
    let scale = attributes.number("scale_factor").unwrap_or(1.0);
    let offset = attributes.number("add_offset").unwrap_or(0.0);
    unpacked(scale, offset, attributes.text("units").as_deref())
}

/// The formula of packed values: "stored values × 0.01 + 273.15 are kelvin". `None` if it changes
/// nothing.
fn unpacked(scale: f64, offset: f64, units: Option<&str>) -> Option<String> {
    let mut formula = "stored values".to_owned();
    if scale != 1.0 {
        formula += &format!(" × {}", in_words(scale));
    }
    if offset != 0.0 {
        let sign = if offset < 0.0 { '−' } else { '+' };
        formula += &format!(" {sign} {}", in_words(offset.abs()));
    }
    let is_packed = scale != 1.0 || offset != 0.0;
    let units = units.map(str::trim).filter(|units| !units.is_empty());
    is_packed.then(|| format!("{formula} are {}", units.unwrap_or("the real values")))
}

/// A number as text, without the digits that a number of 32 bits gets when it is widened to 64:
/// 0.01, not 0.009999999776482582.
fn in_words(number: f64) -> String {
    let narrow = number as f32;
    if f64::from(narrow) == number {
        narrow.to_string()
    } else {
        number.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_stated_unless_it_changes_nothing() {
        let kelvin = unpacked(f64::from(0.01_f32), 273.15, Some("kelvin"));
        assert_eq!(
            kelvin.as_deref(),
            Some("stored values × 0.01 + 273.15 are kelvin")
        );
        assert_eq!(
            unpacked(1.0, -5.0, None).as_deref(),
            Some("stored values − 5 are the real values")
        );
        assert_eq!(unpacked(1.0, 0.0, Some("m")), None);
    }
}
