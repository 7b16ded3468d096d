//! ndstore exports: `/<channel>/CUTOUT`, next to `CHANNELTYPE` and `DATATYPE`.
//!
//! Source: ndstore (Open Connectome), its HDF5 cutout service. A cutout is z, y, x, preceded by
//! time in a time series. A channel is named after its group; annotations are labels.
//!
//! Example: `/synapses/CUTOUT` of 16 × 512 × 512, next to the `CHANNELTYPE` "annotation", is the
//! channel `synapses` of labels with the axes zyx.

use voltile_base::paint::Kind;

use super::contents::About;
use super::marks::Marks;
use super::usual_axes;

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    if about.last() != "CUTOUT" {
        return None;
    }
    let channel_type = about.file.text(&about.beside("CHANNELTYPE"));
    let data_type = about.file.text(&about.beside("DATATYPE"));
    let evidence = match (&channel_type, &data_type) {
        (Some(_), _) => "CHANNELTYPE",
        (None, Some(_)) => "DATATYPE",
        (None, None) => return None,
    };
    let is_annotation = channel_type.is_some_and(|text| text.trim().starts_with("annotation"));
    let is_labels = about.is_integer() && is_annotation;
    Some(Marks {
        named_by: Some(about.group().to_owned()).filter(|group| !group.is_empty()),
        axes: usual_axes(about.rank()),
        kind: Some(if is_labels { Kind::Labels } else { Kind::Image }),
        labels_because: is_labels.then(|| "its CHANNELTYPE is annotation".to_owned()),
        ..Marks::because(format!("it has {} with {evidence} next to it", about.path))
    })
}
