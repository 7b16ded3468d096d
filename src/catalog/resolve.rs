//! Resolves the names and numbers of a request to channels, levels, patches, and the key of the
//! rendering.

use std::sync::Arc;

use voltile_base::color::Colour;
use voltile_base::geometry::{
    Level, LevelView, Orthogonal, Patch, Placement, Plane, TileAddress, Xyz, slab_patch,
};
use voltile_base::name::Name;
use voltile_base::paint::{DatasetStyle, Kind, Style, TileFormat, Window};
use voltile_base::request::{Adjustment, ChannelChoice, SlabRequest, TileRequest, VersionedToken};
use voltile_base::tile::{Fingerprint, TileKey};
use voltile_render::plan::{Layer, Picture, PixelKind, Plan, Shading, Source};

use super::request_plan::black_key;
use super::{Catalog, Channel, Closed, Dataset, Names, Origin, RequestPlan, Subject};

/// The version of the rendering, part of every key. Incremented by every change that affects
/// pixels, be it of drawing rules or a bug fix in reading or decoding: the disk cache may contain
/// tiles of older versions. Also incremented by every change of documents at addresses with a
/// version, which clients keep for a year.
pub(super) const RULES: u32 = 6;

/// Why a well-formed request cannot be served. The status is 404, or 413 if the request asks for
/// too much, or 503 if the dataset cannot be opened yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// No dataset has this name.
    #[error("there is no dataset {token}; {known}")]
    Token {
        /// The name.
        token: Name,
        /// The names of some datasets that exist, in words.
        known: String,
    },
    /// The dataset is served, but cannot be opened for now.
    #[error(
        "the dataset {0} cannot be opened, because its store does not answer; it is tried again until it does"
    )]
    Unreachable(Name),
    /// The dataset is served, but its turn to be opened has not come yet.
    #[error("the dataset {0} has not been opened yet; request it again later")]
    Waiting(Name),
    /// The tile shows no part of the channels.
    #[error("the tile lies outside of the dataset {0}")]
    Outside(Name),
    /// The level is not stored, and a tile of it would be derived from too many voxels.
    #[error("{0}")]
    TooCostly(String),
    /// The box, the chunks that hold it, or its file are larger than allowed.
    #[error("{0}")]
    TooLarge(String),
    /// The box is no chunk of the level.
    #[error("{0}")]
    OffGrid(String),
    /// Anything else that does not exist or cannot be shown; the text says what can be requested
    /// instead, if that helps.
    #[error("{0}")]
    Other(String),
}

/// A request for a tile, with its names resolved to a dataset and channels.
#[derive(Debug)]
pub(super) struct ResolvedTile {
    pub(super) dataset: Arc<Dataset>,
    style: Style,
    layers: Vec<ResolvedLayer>,
    time: u64,
    address: TileAddress,
    slab: Option<SlabRequest>,
    format: TileFormat,
    /// Whether missing pixels are transparent; false if there are none in any tile of its channels.
    shows_missing: bool,
}

/// A channel that a tile shows, and how.
#[derive(Debug)]
struct ResolvedLayer {
    channel: Arc<Channel>,
    /// The colour in a composite, or the colour that the client has chosen.
    colour: Option<Colour>,
    adjust: Adjustment,
    view: LevelView,
    placement: Placement,
    patch: Option<Patch>,
}

/// Everything that determines a tile's bytes.
#[derive(Hash)]
struct Rendering {
    rules: u32,
    style: Style,
    dataset: DatasetStyle,
    time: u64,
    address: TileAddress,
    shows_missing: bool,
    layers: Vec<LayerRendering>,
}

/// The part of a [`Rendering`] that a layer determines.
#[derive(Hash)]
struct LayerRendering {
    channel: Fingerprint,
    /// The bits of the voxel size in the file.
    voxel_size: Option<Xyz<u64>>,
    /// The precomputed level that is read, if any.
    pyramid_level: Option<Fingerprint>,
    placement: Placement,
    colour: Option<Colour>,
    shading: Shading,
}

impl Catalog {
    /// Plans a request for a tile.
    pub fn plan_tile(&self, request: &TileRequest) -> Result<RequestPlan, NotFound> {
        Ok(self.resolve(request)?.planned())
    }

    /// Resolves a request for a tile.
    pub(super) fn resolve(&self, request: &TileRequest) -> Result<ResolvedTile, NotFound> {
        let resolved = self.resolve_names(request)?;
        let dataset = &resolved.dataset;
        for layer in &resolved.layers {
            dataset.ensure_few_slices(layer)?;
        }
        if dataset.style.not_found_outside && resolved.is_black() {
            return Err(NotFound::Outside(dataset.token.clone()));
        }
        Ok(resolved)
    }

    /// Resolves a request without checking that its slab is thin enough, or that the tile shows
    /// part of a channel.
    pub(super) fn resolve_names(&self, request: &TileRequest) -> Result<ResolvedTile, NotFound> {
        let dataset = self.requested_dataset(&request.token)?;
        let time = dataset.time_of(request.time, request.channels.names());
        let mut layers = Vec::new();
        match &request.channels {
            ChannelChoice::One(name) => {
                layers.push(dataset.layer(name, None, request, time)?);
            }
            ChannelChoice::Composite(channels) => {
                for (name, colour) in channels {
                    layers.push(dataset.layer(name, Some(*colour), request, time)?);
                }
            }
        }
        for (layer, adjust) in layers.iter_mut().zip(&request.adjust) {
            layer.apply(*adjust);
        }
        Ok(ResolvedTile {
            dataset: Arc::clone(dataset),
            style: self.style,
            layers,
            time,
            address: request.address,
            slab: request.slab,
            format: TileFormat::default(),
            shows_missing: false,
        })
    }

    /// The dataset that a request names. An error if the request names a version, and the dataset
    /// does not have this version now.
    pub fn requested_dataset(&self, wanted: &VersionedToken) -> Result<&Arc<Dataset>, NotFound> {
        let VersionedToken { token, version } = wanted;
        let dataset = self
            .datasets
            .get(token)
            .ok_or_else(|| match self.closed.get(token) {
                Some(Closed::Unreachable(_)) => NotFound::Unreachable(token.clone()),
                Some(Closed::Waiting) => NotFound::Waiting(token.clone()),
                None => NotFound::Token {
                    token: token.clone(),
                    known: name_list("datasets", self.datasets.keys()),
                },
            })?;
        match version {
            Some(version) if dataset.live => Err(NotFound::Other(format!(
                "the dataset {token} is being written and has no versions, such as {version}, until that ends; leave out the version"
            ))),
            Some(version) if version != self.version(dataset) => Err(NotFound::Other(format!(
                "the dataset {token} has the version {} now; {version} is outdated, or never was one. Its addresses are in /datasets.json",
                self.version(dataset)
            ))),
            _ => Ok(dataset),
        }
    }
}

impl ResolvedLayer {
    /// Applies a client's adjustments: all to images, all but the colour to RGB data, none to
    /// labels.
    fn apply(&mut self, adjust: Adjustment) {
        if self.channel.kind == Kind::Labels {
            return;
        }
        self.adjust = adjust;
        // A single channel is drawn in white anyway: the tile stays grey, with the same key.
        let is_grey = self.colour.is_none() && adjust.colour == Some(Colour::White);
        if self.channel.kind == Kind::Image && adjust.colour.is_some() && !is_grey {
            self.colour = adjust.colour;
        }
    }

    /// The window in force, with the client's limits; `None` until it has been measured.
    fn window(&self) -> Option<Window> {
        let Adjustment { lo, hi, .. } = self.adjust;
        match (lo, hi) {
            (Some(lo), Some(hi)) => Some(Window::between(lo, hi)),
            _ => self
                .channel
                .window()
                .map(|window| window.with_limits(lo, hi)),
        }
    }

    /// How its voxels become shades. The renderer gets nothing else but the voxels and the colour.
    fn shading(&self) -> Shading {
        Shading {
            window: self.window().unwrap_or(self.channel.voxel.full_window()),
            gamma: self.adjust.gamma,
        }
    }

    /// Its part of the key.
    fn rendering(&self) -> LayerRendering {
        // The colour and the shading contain the adjustments, and the patch follows from the fields
        // of the key.
        let Self {
            channel,
            colour,
            adjust: _,
            view,
            placement,
            patch: _,
        } = self;
        LayerRendering {
            channel: channel.fingerprint,
            voxel_size: channel.facts.voxel_size.map(|size| size.map(f64::to_bits)),
            pyramid_level: channel.pyramid_fingerprint(view),
            placement: *placement,
            colour: *colour,
            shading: self.shading(),
        }
    }
}

impl Dataset {
    /// Resolves one channel of a requested tile; `colour` is its colour in a composite.
    fn layer(
        &self,
        name: &Name,
        colour: Option<Colour>,
        request: &TileRequest,
        time: u64,
    ) -> Result<ResolvedLayer, NotFound> {
        let address = &request.address;
        let channel = self.channel_at(name, time)?;
        if colour.is_some() && channel.kind != Kind::Image {
            return Err(NotFound::Other(format!(
                "the channel {name} holds {}, which cannot be composited; ask for it alone",
                channel.kind.name()
            )));
        }
        let view = self.affordable_view(channel, address)?;
        let is_there = channel.is_there(&view, self.style.scaling, time);
        let placement = Placement {
            slices: self.style.offset,
            grid: self.grid_offset(channel),
        };
        let orthogonal = self.orthogonal(channel);
        let end = request
            .slab
            .map_or(address.slice.saturating_add(1), |slab| slab.end);
        let patch = if is_there {
            slab_patch(address, end, &view, placement, orthogonal)
        } else {
            None
        };
        Ok(ResolvedLayer {
            channel: Arc::clone(channel),
            colour,
            adjust: Adjustment::default(),
            view,
            placement,
            patch,
        })
    }

    /// How the level of a tile is derived. Fails if a tile of it would read more voxels than are
    /// allowed.
    fn affordable_view(
        &self,
        channel: &Channel,
        address: &TileAddress,
    ) -> Result<LevelView, NotFound> {
        let limit = self.limits.voxels_per_tile;
        let view = self.view(channel, address.level)?;
        let plane = address.plane;
        let voxels = view.voxels_per_tile(plane);
        if !view.is_stored() && voxels > limit {
            return Err(NotFound::TooCostly(format!(
                "level {} of the channel {} is not stored, and deriving one {plane} tile of it would read {voxels} voxels, more than the limit of {limit}; store its levels with `voltile pyramid FILE`, or raise render.max_voxels_per_tile",
                address.level.number(),
                channel.name
            )));
        }
        Ok(view)
    }

    /// Fails if a slab would read more voxels than are allowed for a tile.
    fn ensure_few_slices(&self, layer: &ResolvedLayer) -> Result<(), NotFound> {
        let Some(patch) = &layer.patch else {
            return Ok(());
        };
        let view = &layer.view;
        let limit = self.limits.voxels_per_tile;
        let plane = patch.plane();
        let slices = patch.depth();
        let voxels = view.voxels_per_slab(plane, slices);
        if slices == 1 || voxels <= limit {
            return Ok(());
        }
        Err(NotFound::Other(format!(
            "a slab of {slices} slices of level {} of the channel {} would read {voxels} voxels for one {plane} tile, more than the limit of {limit}; at most {} slices do: request fewer, or a coarser level, or raise render.max_voxels_per_tile",
            view.level.number(),
            layer.channel.name,
            self.most_slices(view, plane)
        )))
    }

    /// The most slices that a slab of a level may have.
    pub(super) fn most_slices(&self, view: &LevelView, plane: Plane) -> u64 {
        let most = self.limits.voxels_per_tile / view.voxels_per_tile(plane).max(1);
        most.clamp(1, view.size[plane.slice_axis()].max(1))
    }

    /// The time point `wanted` by a request for channels; if the request names none, the first time
    /// point at which one of the channels exists.
    pub(super) fn time_of<'n>(
        &self,
        wanted: Option<u64>,
        channels: impl IntoIterator<Item = &'n Name>,
    ) -> u64 {
        if let Some(time) = wanted {
            return time;
        }
        let names = channels.into_iter();
        let known = names.filter_map(|name| self.channels.get(name));
        known.map(|channel| channel.first_time()).min().unwrap_or(0)
    }

    /// The channel that a request names, which must have the time point.
    pub(super) fn channel_at(&self, name: &Name, time: u64) -> Result<&Arc<Channel>, NotFound> {
        let Some(channel) = self.channels.get(name) else {
            let existing = name_list("channels", self.channels.keys());
            return Err(NotFound::Other(format!(
                "the dataset {} has no channel {name}; {existing}",
                self.token
            )));
        };
        if time >= channel.times {
            return Err(NotFound::Other(format!(
                "the channel {name} has {} time points, numbered from 0; there is no {time}",
                channel.times
            )));
        }
        Ok(channel)
    }

    /// The table with the names of a channel's labels.
    pub fn names(&self, channel: &Name) -> Result<&Arc<Names>, NotFound> {
        let names = self.channel_at(channel, 0)?.names.as_ref();
        names.ok_or_else(|| {
            NotFound::Other(format!(
                "the channel {channel} has no table of names; the setting `names` of a channel of labels gives it one"
            ))
        })
    }

    /// How a level of a channel is derived.
    pub(super) fn view(&self, channel: &Channel, level: Level) -> Result<LevelView, NotFound> {
        channel.view(level, self.style.scaling).ok_or_else(|| {
            let coarsest = self.views(channel).last();
            let last = coarsest.map_or(0, |view| view.level.number());
            NotFound::Other(format!(
                "the channel {} has the levels 0 to {last}; there is no {}",
                channel.name,
                level.number()
            ))
        })
    }

    /// How xz and yz tiles of a channel treat anisotropic voxels.
    pub(super) fn orthogonal(&self, channel: &Channel) -> Orthogonal {
        match self.style.voxel_size.or(channel.facts.voxel_size) {
            Some(voxel) if self.style.square_pixels => Orthogonal::Isotropic(voxel),
            _ => Orthogonal::Stored,
        }
    }
}

impl ResolvedTile {
    /// The same tile with transparent pixels where data is missing in all channels.
    #[must_use]
    pub(super) fn showing_missing(self) -> Self {
        let shows_missing = self.channels().any(|channel| channel.may_be_missing());
        Self {
            shows_missing,
            ..self
        }
    }

    /// The same tile in another format.
    #[must_use]
    pub(super) fn encoded_as(self, format: TileFormat) -> Self {
        Self { format, ..self }
    }

    /// The plan of the request: of a black tile, if it lies outside of all volumes.
    pub(super) fn planned(&self) -> RequestPlan {
        let origin = self.origin();
        if self.is_black() {
            let kind = self.pixels();
            let key = black_key(kind, self.style, self.format);
            let subject = Subject::Black(kind, self.style, self.format);
            return RequestPlan::new(key, origin, subject, Vec::new());
        }
        let subject = Subject::Tile(self.plan());
        RequestPlan::new(self.key(), origin, subject, self.unmeasured())
    }

    /// The origin of its tile. A black tile depends on all channels of the dataset: in the next
    /// generation of their files it may lie inside a volume.
    pub(super) fn origin(&self) -> Origin {
        if self.is_black() {
            return Origin::whole(&self.dataset);
        }
        Origin::new(&self.dataset, self.channels().cloned().collect())
    }

    /// The channels, in the order of the request.
    pub(super) fn channels(&self) -> impl Iterator<Item = &Arc<Channel>> + Clone {
        self.layers.iter().map(|layer| &layer.channel)
    }

    /// The channels whose windows must be measured before the rendering has a key.
    pub(super) fn unmeasured(&self) -> Vec<Arc<Channel>> {
        let layers = self.layers.iter();
        layers
            .filter(|layer| layer.channel.kind != Kind::Labels && layer.window().is_none())
            .map(|layer| Arc::clone(&layer.channel))
            .collect()
    }

    /// Whether the tile lies entirely outside all volumes.
    fn is_black(&self) -> bool {
        self.layers.iter().all(|layer| layer.patch.is_none())
    }

    /// The pixel format of the tile.
    fn pixels(&self) -> PixelKind {
        match self.layers.as_slice() {
            [layer] if layer.colour.is_none() && layer.channel.kind == Kind::Image => {
                PixelKind::Grey
            }
            _ => PixelKind::Rgb,
        }
    }

    /// The key of the rendering: a digest of everything that determines its bytes.
    pub(super) fn key(&self) -> TileKey {
        let Self {
            dataset,
            style,
            layers,
            time,
            address,
            slab,
            format,
            shows_missing,
        } = self;
        let rendering = Rendering {
            rules: RULES,
            style: *style,
            dataset: dataset.style,
            time: *time,
            address: *address,
            shows_missing: *shows_missing,
            layers: layers.iter().map(ResolvedLayer::rendering).collect(),
        };
        // Slab and format are hashed only if one is set: tiles of single slices in PNG keep the
        // keys of versions without slabs and formats, so that existing caches remain valid.
        match (slab, format) {
            (None, TileFormat::Png) => TileKey::digest(&rendering),
            added => TileKey::digest(&(rendering, added)),
        }
    }

    /// The plan for the renderer: what to read and how to paint it.
    pub(super) fn plan(&self) -> Plan {
        let picture = match self.layers.as_slice() {
            [only] if only.colour.is_none() => self.picture(only),
            layers => {
                let coloured = layers
                    .iter()
                    .filter_map(|layer| Some((self.shaded(layer, 0), layer.colour?)));
                Picture::Composite(coloured.collect())
            }
        };
        Plan {
            picture,
            style: self.style,
            format: self.format,
            shows_missing: self.shows_missing,
        }
    }

    /// The picture of a layer without a colour of its own.
    fn picture(&self, layer: &ResolvedLayer) -> Picture {
        match layer.channel.kind {
            Kind::Image => Picture::Grey(self.shaded(layer, 0)),
            Kind::Labels => Picture::Labels(self.source(layer, 0)),
            Kind::Rgb => {
                let colours = [Colour::Red, Colour::Green, Colour::Blue];
                let coloured = colours.into_iter().enumerate();
                let layers =
                    coloured.map(|(component, colour)| (self.shaded(layer, component), colour));
                Picture::Composite(layers.collect())
            }
        }
    }

    /// The intensities of a component: RGB data has the components 0 to 2, other data only 0.
    fn shaded(&self, layer: &ResolvedLayer, component: usize) -> Layer {
        Layer {
            source: self.source(layer, component),
            shading: layer.shading(),
        }
    }

    /// The voxels of a component.
    fn source(&self, layer: &ResolvedLayer, component: usize) -> Source {
        // RGB data has a volume for each component; the minimum only guards the index.
        let volumes = &layer.channel.source(&layer.view).volumes;
        Source {
            volume: Arc::clone(&volumes[component.min(volumes.len() - 1)]),
            time: self.time,
            view: layer.view,
            patch: layer.patch.clone(),
            missing: layer.channel.missing.clone(),
            projection: self.slab.map(|slab| slab.projection),
        }
    }
}

/// Names a few things that exist, for an error message: `the channels are a, b` if `what` is
/// `channels`.
pub(super) fn name_list<'a>(what: &str, names: impl ExactSizeIterator<Item = &'a Name>) -> String {
    const MAX_SHOWN: usize = 10;
    let count = names.len();
    let shown: Vec<&str> = names.take(MAX_SHOWN).map(Name::as_str).collect();
    match count {
        0 => format!("there are no {what}"),
        _ if count > MAX_SHOWN => {
            format!("there are {count} {what}, among them {}", shown.join(", "))
        }
        _ => format!("the {what} are {}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
