//! Images of chunked formats: resolved in a catalogue.

use futures_util::future::join_all;

use super::{Demand, Identified, TileError, TileService};
use crate::catalog::{Catalog, Image, NoBox, NotFound};
use crate::name::Name;
use crate::paint::Kind;
use crate::plan::BoxEncoding;
use crate::request::{BoxRequest, VersionedToken};

impl TileService {
    /// Resolves the image of a channel, or of a dataset. Reads no data.
    pub async fn image(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
        channel: Option<&Name>,
    ) -> Result<Image, TileError> {
        let image = catalog.image(token, channel);
        if let Some(dataset) = catalog.dataset(&token.token) {
            // If it does not resolve, it may in the next generation of the files.
            self.ensure_channels_current(dataset, dataset.channels.values()).await?;
        }
        Ok(image?)
    }

    /// Resolves a chunk of an image to the box of voxels that `find` says it holds. Reads no data.
    pub async fn identify_chunk(
        &self,
        catalog: &Catalog,
        token: &VersionedToken,
        channel: Option<&Name>,
        find: impl FnOnce(&Image) -> Result<(BoxRequest, BoxEncoding), NotFound>,
    ) -> Result<Identified, TileError> {
        let resolved = catalog.image(token, channel).map_err(NoBox::from).and_then(|image| {
            let (request, encoding) = find(&image)?;
            Ok((catalog.resolve_box(&request)?, encoding))
        });
        self.current_box(catalog, &token.token, resolved).await
    }

    /// Measures the windows of an image's channels that have not been measured yet. Failures are logged: windows are
    /// useful to viewers, but not necessary.
    pub async fn measure_windows(&self, image: &Image, demand: Demand) {
        let arrays = image.multiscale();
        let channels = arrays.channels().iter();
        let unmeasured =
            channels.filter(|channel| channel.kind != Kind::Labels && channel.window().is_none());
        join_all(unmeasured.map(async |channel| {
            if let Err(error) = self.measure_window(channel, demand).await {
                tracing::warn!("channel {}: its window was not measured: {error}", channel.name);
            }
        }))
        .await;
    }
}
