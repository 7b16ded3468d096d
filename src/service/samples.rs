//! Samples of channels, for windows and descriptions: taken on the pool, once for all requests that
//! need them.

use std::sync::Arc;

use futures_util::future::join_all;
use voltile_base::flow::cache::Lookup;
use voltile_base::flow::interest::Interest;
use voltile_base::paint::Kind;
use voltile_base::tile::TileKey;
use voltile_hdf5::volume::ReadError;
use voltile_render::RenderError;
use voltile_render::survey::Survey;

use super::client::Demand;
use super::error::TileError;
use super::tile_service::TileService;
use crate::catalog::{Channel, Dataset, Footprint, Origin};

impl TileService {
    /// Samples channels of a dataset that have not been sampled, at most as many as one document
    /// may queue; later requests sample the other channels. Returns for each listed channel why it
    /// could not be sampled; a full queue is no reason, because a later request may succeed.
    pub async fn sample_all(&self, dataset: &Arc<Dataset>, demand: Demand) -> Vec<Option<String>> {
        // The dataset is sampled as it was opened. If it has changed, it is reopened for later
        // requests.
        let _ = self.ensure_unchanged(&Origin::whole(dataset)).await;
        let unsampled = dataset
            .listed()
            .filter(|channel| channel.kind != Kind::Labels && channel.surveyed().is_none());
        // At random, so that channels that can never be sampled do not always take the places of
        // others.
        let chosen =
            fastrand::choose_multiple(unsampled.map(|channel| &channel.name), self.pool.share());
        let samples = dataset.listed().map(async |channel| {
            if !chosen.contains(&&channel.name) {
                return None;
            }
            let problem = self.measure(channel, demand).await.err();
            problem
                .filter(|problem| !matches!(problem, TileError::Busy(_)))
                .map(|problem| problem.public())
        });
        join_all(samples).await
    }

    /// Does work other than a render on a render thread, in its client's turn. The work must end
    /// early once nobody is interested in it.
    pub async fn in_turn<V: Send + 'static>(
        &self,
        demand: Demand,
        work: impl FnOnce(&Interest) -> Result<V, TileError> + Send + 'static,
    ) -> Result<V, TileError> {
        self.pool.run(None, demand, work).await
    }

    /// Measures a channel's window. If bytes cannot be sampled, they are shown as stored: one
    /// damaged place must not hide all other voxels.
    pub(super) async fn measure_window(
        &self,
        channel: &Arc<Channel>,
        demand: Demand,
    ) -> Result<(), TileError> {
        match self.measure(channel, demand).await {
            Err(TileError::Render(RenderError::Read(error)))
                if error.is_of_the_data() && channel.show_as_stored() =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Takes a channel's sample on the pool, once for all requests that need it. Once it has begun,
    /// the result is kept even if all these requests have been dropped. Chunks that lie in a store
    /// are fetched first, all at once.
    pub(super) async fn measure(
        &self,
        channel: &Arc<Channel>,
        demand: Demand,
    ) -> Result<(), TileError> {
        self.maker
            .fetch(
                Footprint::of_sample(channel),
                None,
                demand,
                &format!("the channel {}", channel.name),
            )
            .await?;
        if channel.surveyed().is_some() {
            return Ok(());
        }
        let key = TileKey::digest(&("sample", channel.fingerprint));
        let survey = match self.surveys.lookup(&key) {
            Lookup::Ready(survey) => survey,
            Lookup::Wait(waiter) => {
                self.pool.join(&key, demand);
                self.landed(channel.files(), waiter).await?
            }
            Lookup::Lead(flight) => {
                let pool = self.pool.clone();
                let sampled = Arc::clone(channel);
                let waiter = flight.launch(async move {
                    let sample = pool.run(Some(key), demand, move |_| take_sample(&sampled));
                    // A weight above the budget, which is 0: the channel keeps the survey instead.
                    Ok((sample.await?, 1))
                });
                self.landed(channel.files(), waiter).await?
            }
        };
        // Channels with the same voxels share a survey, but each has its own window.
        channel.keep(&survey);
        Ok(())
    }
}

/// Samples a channel, which keeps the survey, and logs the result.
fn take_sample(channel: &Channel) -> Result<Arc<Survey>, TileError> {
    // Another flight may have sampled the channel since this one was requested.
    if let Some(survey) = channel.surveyed() {
        return Ok(Arc::clone(survey));
    }
    let result = channel.survey().map(Arc::new);
    match &result {
        Ok(survey) => {
            channel.keep(survey);
            channel.save_survey(survey);
            let window = channel.window().unwrap_or(survey.window);
            tracing::info!(channel = %channel.name, "a sample was taken; the window is {window}");
        }
        // Logged once for all channels and tiles.
        Err(ReadError::Unresponsive(_)) => {}
        // A failure after the first: each document and tile that needs the sample tries again.
        Err(error) if !channel.note_unsampled() => {
            tracing::debug!(channel = %channel.name, "again no sample could be taken: {error}");
        }
        // Only a warning: bytes are shown all the same, and tiles of the damaged place report it.
        Err(error) if channel.is_of_bytes() => {
            tracing::warn!(channel = %channel.name, "no sample could be taken: {error}");
        }
        Err(error) => tracing::error!(channel = %channel.name, "no sample could be taken: {error}"),
    }
    Ok(result?)
}
