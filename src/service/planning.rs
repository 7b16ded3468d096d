//! Plans requests, and has the files that a plan needs checked for changes. Reads no pixels, unless
//! the window of a channel has yet to be measured.

use std::sync::Arc;

use futures_util::future::{join_all, try_join, try_join_all};
use voltile_base::name::Name;
use voltile_base::paint::Kind;
use voltile_base::request::{PrecomputedVolume, VersionedToken};

use super::client::Demand;
use super::error::TileError;
use super::maker::place_in_errors;
use super::tile_service::TileService;
use crate::catalog::{Catalog, NotFound, Origin, Precomputed, RequestPlan, Subject, ZarrImage};

impl TileService {
    /// Plans a request to a dataset of a catalogue, with `plan`. If the key depends on windows that
    /// have yet to be measured, the client waits for them in the render queue, and the request is
    /// planned again.
    pub async fn plan(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
        demand: Demand,
        plan: impl Fn() -> Result<RequestPlan, NotFound>,
    ) -> Result<Arc<RequestPlan>, TileError> {
        // On the heap: futures of requests are small.
        let planned = plan().map(Arc::new);
        match &planned {
            Ok(planned) => self.ensure_unchanged(&planned.origin).await?,
            // An address off the grid of chunks is wrong even if the file has changed.
            Err(NotFound::OffGrid(_)) => {}
            Err(_) => self.ensure_all_unchanged(catalog, token).await?,
        }
        let planned = planned?;
        if planned.unmeasured.is_empty() {
            return Ok(planned);
        }
        Box::pin(self.measure_missing(&planned, demand)).await?;
        Ok(Arc::new(plan()?))
    }

    /// Measures the windows that a plan lacks.
    async fn measure_missing(&self, plan: &RequestPlan, demand: Demand) -> Result<(), TileError> {
        let channels = plan.unmeasured.iter();
        let measuring = try_join_all(channels.map(|channel| self.measure_window(channel, demand)));
        let place = place_in_errors(plan.origin.token());
        if let Subject::Box(..) = plan.subject {
            // Display ranges are useful to ImageJ, but not necessary.
            if let Err(error) = measuring.await {
                tracing::warn!("the windows of a TIFF file of {place} were not measured: {error}");
            }
            return Ok(());
        }
        // The picture's own chunks arrive together with the chunks of the samples.
        let footprint = plan.footprint();
        let fetching = self.maker.fetch(footprint, None, demand, &place);
        try_join(measuring, fetching).await.map(drop)
    }

    /// A channel in Neuroglancer's precomputed format.
    pub async fn precomputed(
        &self,
        catalog: &Catalog,
        volume: &PrecomputedVolume,
    ) -> Result<Precomputed, TileError> {
        let resolved = catalog.precomputed_volume(volume);
        match &resolved {
            Ok((origin, _)) => self.ensure_unchanged(origin).await?,
            Err(_) => self.ensure_all_unchanged(catalog, &volume.token).await?,
        }
        let (_, precomputed) = resolved?;
        Ok(precomputed.clone())
    }

    /// The OME-Zarr image of a channel, or of a dataset.
    pub async fn image(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
        channel: Option<&Name>,
    ) -> Result<ZarrImage, TileError> {
        self.ensure_all_unchanged(catalog, token).await?;
        Ok(catalog.image(token, channel)?)
    }

    /// Measures windows of an image's channels that have not been measured yet, but no more than a
    /// document may queue. The channels are chosen at random, so that channels that can never be
    /// sampled do not always take the places of others. Failures are logged: windows are useful to
    /// viewers, but not necessary.
    pub async fn measure_windows(&self, image: &ZarrImage, demand: Demand) {
        let arrays = image.multiscale();
        let channels = arrays.channels.iter();
        let unmeasured =
            channels.filter(|channel| channel.kind != Kind::Labels && channel.window().is_none());
        let chosen = fastrand::choose_multiple(unmeasured, self.pool.share()).into_iter();
        let measuring = chosen.map(|channel| self.measure_window(channel, demand));
        let results = join_all(measuring).await;
        let errors: Vec<TileError> = results.into_iter().filter_map(Result::err).collect();
        if let Some(error) = errors.first() {
            let token = &image.dataset().token;
            tracing::warn!(
                "{token}: the windows of {} channels were not measured: {error}",
                errors.len()
            );
        }
    }

    /// Fails if any file of a dataset has changed: a name that cannot be resolved now may exist in
    /// the next generation of any file.
    async fn ensure_all_unchanged(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
    ) -> Result<(), TileError> {
        match catalog.dataset(&token.token) {
            Some(dataset) => self.ensure_unchanged(&Origin::whole(dataset)).await,
            None => Ok(()),
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
