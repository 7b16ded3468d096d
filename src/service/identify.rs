//! Identifies what is requested: resolved in a catalogue, with its key, once its files have been
//! found unchanged. Reads no pixels.

use std::sync::Arc;

use futures_util::future::{join_all, try_join, try_join_all};
use voltile_base::name::Name;
use voltile_base::paint::{BoxFormat, Kind, TileFormat};
use voltile_base::request::{
    BoxRequest, PrecomputedChunk, PrecomputedVolume, RangeRequest, TileRequest, VersionedToken,
    ZarrChunk, ZarrRequest,
};
use voltile_render::imagej_has;
use voltile_render::plan::{AcceptedCodings, BoxEncoding, PixelKind};

use super::client::Demand;
use super::error::TileError;
use super::footprint::Footprint;
use super::identified::{Identified, What};
use super::prepare::in_words;
use super::tile_service::TileService;
use crate::catalog::{
    Catalog, Channel, Image, NoBox, NotFound, Origin, Precomputed, Resolved, ResolvedBox,
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
        let resolved = catalog
            .resolve(request)
            .map(|resolved| (resolved.origin(), resolved));
        let (origin, resolved) = self
            .unchanged(catalog, &request.token.token, resolved)
            .await?;
        if !resolved.is_black() && resolved.unmeasured().next().is_some() {
            // The tile's own chunks arrive together with those of the samples.
            let (own, place) = (Footprint::new(&[resolved.plan()]), in_words(origin.token()));
            let ahead = self.preparation.fetch(own, &place);
            Box::pin(try_join(
                self.measure_all(resolved.unmeasured(), demand),
                ahead,
            ))
            .await?;
        }
        Ok(Identified::new(origin, self.what(resolved)))
    }

    /// Resolves a request for a tile whose layers are adjusted. Reads no data.
    pub async fn identify_view(
        &self,
        catalog: &Catalog,
        request: &TileRequest,
        format: TileFormat,
    ) -> Result<Identified, TileError> {
        let resolved = catalog
            .resolve_view(request)
            .map(|resolved| (resolved.origin(), resolved.encoded_as(format)));
        let (origin, resolved) = self
            .unchanged(catalog, &request.token.token, resolved)
            .await?;
        Ok(Identified::new(origin, self.what(resolved)))
    }

    /// Resolves a request for an overview whose layers are adjusted. Reads no data.
    pub async fn identify_overview_of_view(
        &self,
        catalog: &Catalog,
        request: &TileRequest,
    ) -> Result<Identified, TileError> {
        let overview = catalog
            .overview_of_view(request)
            .map(|overview| (overview.origin(), overview));
        let (origin, overview) = self
            .unchanged(catalog, &request.token.token, overview)
            .await?;
        Ok(Identified::new(origin, What::Overview(overview)))
    }

    /// Resolves a request for the range of what is visible. Reads no data.
    pub async fn identify_range(
        &self,
        catalog: &Catalog,
        request: &RangeRequest,
    ) -> Result<Identified, TileError> {
        let visible = catalog
            .resolve_range(request)
            .map(|visible| (visible.origin(), visible));
        let (origin, visible) = self
            .unchanged(catalog, &request.token.token, visible)
            .await?;
        Ok(Identified::new(origin, What::Range(visible)))
    }

    /// A tile, or the shared black one.
    fn what(&self, resolved: Resolved) -> What {
        if !resolved.is_black() {
            return What::Tile(resolved);
        }
        let [pngs, jpegs] = &self.black;
        let [grey, rgb] = match resolved.format() {
            TileFormat::Png => pngs,
            TileFormat::Jpeg => jpegs,
        };
        What::Black(
            if resolved.pixels() == PixelKind::Grey {
                grey
            } else {
                rgb
            }
            .clone(),
        )
    }

    /// Resolves a request for an overview of a slice, given as a request for the slice's first
    /// tile.
    pub async fn identify_overview(
        &self,
        catalog: &Catalog,
        request: &TileRequest,
        demand: Demand,
    ) -> Result<Identified, TileError> {
        let overview = catalog
            .overview(request)
            .map(|overview| (overview.origin(), overview));
        let (origin, overview) = self
            .unchanged(catalog, &request.token.token, overview)
            .await?;
        self.measure_all(
            overview.tiles().iter().flat_map(Resolved::unmeasured),
            demand,
        )
        .await?;
        Ok(Identified::new(origin, What::Overview(overview)))
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
        let resolved = catalog.resolve_box(request).and_then(|resolved| {
            let (channel, voxel) = (resolved.channel().name.clone(), resolved.channel().voxel);
            match imagej_has(voxel, resolved.channel().kind == Kind::Rgb)
                || format != BoxFormat::Tiff
            {
                true => Ok((resolved, BoxEncoding::File(format))),
                false => Err(NotFound::NotTiff {
                    channel,
                    dtype: voxel.name(),
                }
                .into()),
            }
        });
        let resolved = resolved.map(|found| (found.0.origin(), found));
        let (origin, (resolved, encoding)) = self
            .unchanged(catalog, &request.token.token, resolved)
            .await?;
        if format == BoxFormat::Tiff
            && let Err(error) = self.measure_all(resolved.unmeasured(), demand).await
        {
            // Display ranges are useful to ImageJ, but not necessary.
            tracing::warn!(
                "the windows of a TIFF file of {} were not measured: {error}",
                origin.token()
            );
        }
        let identified = Identified::new(origin, What::Box(Box::new(resolved), encoding, None));
        let bytes = identified
            .cutout()
            .map_or(0, |(plan, encoding)| encoding.bytes(&plan));
        if format == BoxFormat::Tiff && bytes > MAX_TIFF {
            let problem = "a TIFF file has at most 4 GiB; request a smaller box, or .npy";
            return Err(TileError::TooLarge(problem.to_owned()));
        }
        Ok(identified)
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
        self.unchanged_box(catalog, &request.volume.token.token, resolved)
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
        self.unchanged_box(catalog, &request.token.token, resolved)
            .await
    }

    async fn unchanged_box(
        &self,
        catalog: &Catalog,
        token: &Name,
        resolved: Result<(ResolvedBox, BoxEncoding), NoBox>,
    ) -> Result<Identified, TileError> {
        let resolved = resolved.map(|found| (found.0.origin(), found));
        let (origin, (resolved, encoding)) = self.unchanged(catalog, token, resolved).await?;
        Ok(Identified::new(
            origin,
            What::Box(Box::new(resolved), encoding, None),
        ))
    }

    /// A channel in Neuroglancer's precomputed format, once its files have been found unchanged.
    pub async fn precomputed(
        &self,
        catalog: &Catalog,
        volume: &PrecomputedVolume,
    ) -> Result<Precomputed, TileError> {
        let found = catalog.precomputed_volume(volume);
        Ok(self
            .unchanged(catalog, &volume.token.token, found)
            .await?
            .1
            .clone())
    }

    /// Resolves the image of a channel, or of a dataset. Reads no data.
    pub async fn image(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
        channel: Option<&Name>,
    ) -> Result<Image, TileError> {
        let image = catalog
            .image(token, channel)
            .map(|image| (Origin::whole(image.dataset()), image));
        Ok(self.unchanged(catalog, &token.token, image).await?.1)
    }

    /// Measures the windows of channels of an image that have not been measured yet, but no more
    /// than a document may queue: chosen at random, as channels that can never be sampled do not
    /// keep other channels from it. Failures are logged: windows are useful to viewers, but not
    /// necessary.
    pub async fn measure_windows(&self, image: &Image, demand: Demand) {
        let arrays = image.multiscale();
        let channels = arrays.channels().iter();
        let unmeasured =
            channels.filter(|channel| channel.kind != Kind::Labels && channel.window().is_none());
        let chosen = fastrand::choose_multiple(unmeasured, self.pool.share());
        let measured = join_all(
            chosen
                .into_iter()
                .map(|channel| self.measure_window(channel, demand)),
        )
        .await;
        let errors: Vec<TileError> = measured.into_iter().filter_map(Result::err).collect();
        if let Some(error) = errors.first() {
            let token = &image.dataset().token;
            tracing::warn!(
                "{token}: the windows of {} channels were not measured: {error}",
                errors.len()
            );
        }
    }

    /// What was resolved, with its origin; fails if a file of the origin has changed since it was
    /// opened. If nothing was resolved, all files of the dataset are checked: it may resolve in
    /// their next generation.
    async fn unchanged<T, E: Into<TileError>>(
        &self,
        catalog: &Catalog,
        token: &Name,
        resolved: Result<(Origin, T), E>,
    ) -> Result<(Origin, T), TileError> {
        match &resolved {
            Ok((origin, _)) => self.ensure_unchanged(origin).await?,
            Err(_) => {
                if let Some(dataset) = catalog.dataset(token) {
                    self.ensure_unchanged(&Origin::whole(dataset)).await?;
                }
            }
        }
        resolved.map_err(Into::into)
    }

    /// Fails if a file has changed since it was opened, and requests that the dataset be reopened.
    pub async fn ensure_unchanged(&self, origin: &Origin) -> Result<(), TileError> {
        if !origin.has_changed().await? {
            return Ok(());
        }
        if let Some(reopener) = &self.reopener {
            reopener.reopen(origin.token());
        }
        Err(TileError::Changed {
            token: origin.token().clone(),
        })
    }
}
