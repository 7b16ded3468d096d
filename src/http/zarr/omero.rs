//! How viewers first show the channels: `omero`, OMERO's rendering settings.

use serde_json::{Number, Value, json};
use voltile_base::color::{Colour, Rgb};
use voltile_base::paint::Kind;

use crate::catalog::{Channel, Multiscale};

/// Viewers that draw on the graphics card show at most this many channels at once.
const MAX_ACTIVE: usize = 6;

/// The settings of an image; `None` for labels.
pub(super) fn metadata(arrays: &Multiscale<'_>, name: &str) -> Option<Value> {
    let channels = &arrays.channels;
    let first = channels.first()?;
    let channels: Vec<Value> = match first.kind {
        Kind::Labels => return None,
        Kind::Rgb => {
            let components = [("red", "FF0000"), ("green", "00FF00"), ("blue", "0000FF")];
            components
                .map(|(label, colour)| channel(first, label, colour, true))
                .into()
        }
        Kind::Image => {
            let composite = arrays.dataset.composite_colours();
            let described = channels.iter().enumerate().map(|(index, image)| {
                let label = image.facts.label.as_deref().unwrap_or(image.name.as_str());
                // Channels that are shown together get different colours.
                let colour: Option<Rgb> = match channels.len() {
                    1 => image.facts.colour.as_deref().and_then(Colour::code),
                    _ => composite.get(&image.name).map(|(_, rgb)| *rgb),
                };
                let [r, g, b] = colour.unwrap_or([u8::MAX; 3]);
                channel(
                    image,
                    label,
                    &format!("{r:02X}{g:02X}{b:02X}"),
                    index < MAX_ACTIVE,
                )
            });
            described.collect()
        }
    };
    let model = if channels.len() == 1 {
        "greyscale"
    } else {
        "color"
    };
    Some(json!({"name": name, "channels": channels, "rdefs": {"model": model}}))
}

fn channel(channel: &Channel, label: &str, colour: &str, is_active: bool) -> Value {
    let (min, max) = channel.voxel.full_window().limits();
    let displayed = channel.window();
    let (start, end) = displayed.map_or((min, max), |window| window.limits());
    let low = start.min(end);
    let high = start.max(end);
    json!({
        "label": label,
        "color": colour,
        "active": is_active,
        "coefficient": 1,
        "family": "linear",
        "inverted": start > end,
        // `min` and `max` are the range of the voxel type, extended to the displayed range: floats
        // may lie beyond their type's range of 0 to 1.
        "window": {
            "min": number(min.min(low)), "max": number(max.max(high)),
            "start": number(low), "end": number(high),
        },
    })
}

/// A number, written without a fraction if it is whole and small enough to be exact.
fn number(value: f64) -> Number {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        Number::from(value as i64)
    } else {
        Number::from_f64(value).unwrap_or(Number::from(0))
    }
}
