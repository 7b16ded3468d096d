//! Identifies requests: each is resolved in a catalogue and gets its key, once its files have been
//! found unchanged. Reads no pixels.

use std::sync::Arc;

use futures_util::future::{join_all, try_join, try_join_all};
use voltile_base::name::Name;
use voltile_base::paint::{BoxFormat, Kind, TileFormat};
use voltile_base::request::{
    BoxRequest, PrecomputedChunk, PrecomputedVolume, TileRequest, VersionedToken, ViewRequest,
    ZarrChunk, ZarrRequest,
};
use voltile_render::imagej_has;
use voltile_render::plan::{AcceptedCodings, BoxEncoding, PixelKind};

use super::client::Demand;
use super::error::TileError;
use super::footprint::Footprint;
use super::identified::{Identified, PlannedBox};
use super::maker::in_words;
use super::tile_service::TileService;
use crate::catalog::{
    Catalog, Channel, NoBox, NotFound, Origin, Precomputed, ResolvedBox, ResolvedOverview,
    ResolvedRange, ResolvedTile, ZarrImage,
};

/// The most bytes of a TIFF file, in which places are numbers of 32 bits.
const MAX_TIFF: u64 = u32::MAX as u64;

impl TileService {
    /// Resolves a request to a tile. Reads data only if the window of a channel has yet to be
    /// measured; the client then waits for that in the render queue.
    pub async fn identify(
        &self,
        catalog: &Catalog,
        request: &TileRequest,
        demand: Demand,
    ) -> Result<Identified, TileError> {
        let resolved = catalog.resolve(request);
        let (origin, resolved) = self
            .unchanged(catalog, &request.token, resolved, ResolvedTile::origin)
            .await?;
        if !resolved.is_black() && resolved.unmeasured().next().is_some() {
            // The tile's own chunks arrive together with the chunks of the samples.
            let footprint = Footprint::new(&[resolved.plan()]);
            let place = in_words(origin.token());
            let fetched = self.maker.fetch(footprint, None, demand, &place);
            let measured = self.measure_all(resolved.unmeasured(), demand);
            Box::pin(try_join(measured, fetched)).await?;
        }
        Ok(self.identified_tile(origin, &resolved))
    }

    /// Resolves a request for a tile, an overview or a range as a page wants it. Reads no data.
    pub async fn identify_view(
        &self,
        catalog: &Catalog,
        request: &ViewRequest,
    ) -> Result<Identified, TileError> {
        let token = request.token();
        match request {
            ViewRequest::Tile(tile, format) => {
                let tile = catalog.resolve_view(tile);
                let (origin, tile) = self
                    .unchanged(catalog, token, tile, ResolvedTile::origin)
                    .await?;
                Ok(self.identified_tile(origin, &tile.encoded_as(*format)))
            }
            ViewRequest::Overview(first) => {
                let overview = catalog.overview_of_view(first);
                let (origin, overview) = self
                    .unchanged(catalog, token, overview, ResolvedOverview::origin)
                    .await?;
                Ok(Identified::overview(origin, &overview))
            }
            ViewRequest::Range(range) => {
                let visible = catalog.resolve_range(range);
                let (origin, visible) = self
                    .unchanged(catalog, token, visible, ResolvedRange::origin)
                    .await?;
                Ok(Identified::range(origin, &visible))
            }
        }
    }

    /// A tile, or the shared black one.
    fn identified_tile(&self, origin: Origin, resolved: &ResolvedTile) -> Identified {
        if !resolved.is_black() {
            return Identified::tile(origin, resolved);
        }
        let [pngs, jpegs] = &self.black;
        let [grey, rgb] = match resolved.format() {
            TileFormat::Png => pngs,
            TileFormat::Jpeg => jpegs,
        };
        let black = if resolved.pixels() == PixelKind::Grey {
            grey
        } else {
            rgb
        };
        Identified::black(origin, black.clone())
    }

    /// Resolves a request for an overview of a slice, given as a request for the slice's first
    /// tile.
    pub async fn identify_overview(
        &self,
        catalog: &Catalog,
        request: &TileRequest,
        demand: Demand,
    ) -> Result<Identified, TileError> {
        let overview = catalog.overview(request);
        let (origin, overview) = self
            .unchanged(catalog, &request.token, overview, ResolvedOverview::origin)
            .await?;
        let unmeasured = overview.tiles().iter().flat_map(ResolvedTile::unmeasured);
        self.measure_all(unmeasured, demand).await?;
        Ok(Identified::overview(origin, &overview))
    }

    async fn measure_all(
        &self,
        channels: impl Iterator<Item = &Arc<Channel>>,
        demand: Demand,
    ) -> Result<(), TileError> {
        try_join_all(channels.map(|channel| self.measure_window(channel, demand)))
            .await
            .map(drop)
    }

    /// Resolves a request for a box of voxels. Reads data only if the display range of a TIFF file
    /// has yet to be measured.
    pub async fn identify_box(
        &self,
        catalog: &Catalog,
        request: &BoxRequest,
        format: BoxFormat,
        demand: Demand,
    ) -> Result<Identified, TileError> {
        let is_tiff = format == BoxFormat::Tiff;
        let mut resolved = catalog.resolve_box(request);
        if is_tiff {
            resolved = resolved.and_then(ensure_imagej_has);
        }
        let (origin, resolved) = self
            .unchanged(catalog, &request.token, resolved, ResolvedBox::origin)
            .await?;
        if is_tiff && let Err(error) = self.measure_all(resolved.unmeasured(), demand).await {
            // Display ranges are useful to ImageJ, but not necessary.
            tracing::warn!(
                "the windows of a TIFF file of {} were not measured: {error}",
                origin.token()
            );
        }
        let encoding = BoxEncoding::File(format);
        let planned = PlannedBox::new(&resolved, encoding);
        if is_tiff && encoding.bytes(&planned.plan) > MAX_TIFF {
            let problem = "a TIFF file has at most 4 GiB; request a smaller box, or .npy";
            return Err(TileError::TooLarge(problem.to_owned()));
        }
        Ok(Identified::planned_box(origin, planned))
    }

    /// Resolves a request for a chunk of Neuroglancer's precomputed format. Reads no data. The
    /// files of the dataset are not checked for a chunk that is off the grid.
    pub async fn identify_precomputed(
        &self,
        catalog: &Catalog,
        request: &PrecomputedChunk,
        accepted: AcceptedCodings,
    ) -> Result<Identified, TileError> {
        let resolved = catalog.resolve_precomputed(request, accepted);
        if let Err(NoBox::NotFound(error @ NotFound::OffGrid { .. })) = resolved {
            return Err(error.into());
        }
        self.unchanged_box(catalog, &request.volume.token, resolved)
            .await
    }

    /// Resolves a request for a chunk of an OME-Zarr image. Reads no data.
    pub async fn identify_chunk(
        &self,
        catalog: &Catalog,
        request: &ZarrRequest,
        chunk: &ZarrChunk,
    ) -> Result<Identified, TileError> {
        let resolved = catalog.resolve_chunk(request, chunk);
        self.unchanged_box(catalog, &request.token, resolved).await
    }

    async fn unchanged_box(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
        resolved: Result<(ResolvedBox, BoxEncoding), NoBox>,
    ) -> Result<Identified, TileError> {
        let (origin, (resolved, encoding)) = self
            .unchanged(catalog, token, resolved, |(resolved, _)| resolved.origin())
            .await?;
        let planned = PlannedBox::new(&resolved, encoding);
        Ok(Identified::planned_box(origin, planned))
    }

    /// A channel in Neuroglancer's precomputed format, once its files have been found unchanged.
    pub async fn precomputed(
        &self,
        catalog: &Catalog,
        volume: &PrecomputedVolume,
    ) -> Result<Precomputed, TileError> {
        let found = catalog.precomputed_volume(volume);
        let (_, (_, precomputed)) = self
            .unchanged(catalog, &volume.token, found, |(origin, _)| origin.clone())
            .await?;
        Ok(precomputed.clone())
    }

    /// Resolves the image of a channel, or of a dataset. Reads no data.
    pub async fn image(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
        channel: Option<&Name>,
    ) -> Result<ZarrImage, TileError> {
        let image = catalog.image(token, channel);
        let (_, image) = self
            .unchanged(catalog, token, image, |image| {
                Origin::whole(image.dataset())
            })
            .await?;
        Ok(image)
    }

    /// Measures the windows of channels of an image that have not been measured yet, but no more
    /// than a document may queue: chosen at random, as channels that can never be sampled do not
    /// keep other channels from it. Failures are logged: windows are useful to viewers, but not
    /// necessary.
    pub async fn measure_windows(&self, image: &ZarrImage, demand: Demand) {
        let arrays = image.multiscale();
        let channels = arrays.channels().iter();
        let unmeasured =
            channels.filter(|channel| channel.kind != Kind::Labels && channel.window().is_none());
        let chosen = fastrand::choose_multiple(unmeasured, self.pool.share()).into_iter();
        let measured = chosen.map(|channel| self.measure_window(channel, demand));
        let measured = join_all(measured).await;
        let errors: Vec<TileError> = measured.into_iter().filter_map(Result::err).collect();
        if let Some(error) = errors.first() {
            let token = &image.dataset().token;
            tracing::warn!(
                "{token}: the windows of {} channels were not measured: {error}",
                errors.len()
            );
        }
    }

    /// Returns a resolved request with its origin; fails if a file of the origin has changed since
    /// it was opened. If the request was not resolved, all files of the dataset are checked: it may
    /// resolve in their next generation.
    async fn unchanged<T, E: Into<TileError>>(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
        resolved: Result<T, E>,
        origin: impl FnOnce(&T) -> Origin,
    ) -> Result<(Origin, T), TileError> {
        match resolved {
            Ok(resolved) => {
                let origin = origin(&resolved);
                self.ensure_unchanged(&origin).await?;
                Ok((origin, resolved))
            }
            Err(error) => {
                if let Some(dataset) = catalog.dataset(&token.token) {
                    self.ensure_unchanged(&Origin::whole(dataset)).await?;
                }
                Err(error.into())
            }
        }
    }

    /// Fails if a file has changed since it was opened, and requests that the dataset be reopened.
    pub async fn ensure_unchanged(&self, origin: &Origin) -> Result<(), TileError> {
        if !origin.has_changed().await? {
            return Ok(());
        }
        self.request_reopening(origin.token());
        Err(TileError::Changed {
            token: origin.token().clone(),
        })
    }
}

/// Fails if ImageJ reads no TIFF files with the voxels of a box.
fn ensure_imagej_has(resolved: ResolvedBox) -> Result<ResolvedBox, NoBox> {
    let channel = resolved.channel();
    if imagej_has(channel.voxel, channel.kind == Kind::Rgb) {
        return Ok(resolved);
    }
    let error = NotFound::NotTiff {
        channel: channel.name.clone(),
        dtype: channel.voxel.name(),
    };
    Err(error.into())
}
