//! A request of a viewer, and what its response must be.

use image::{DynamicImage, GenericImageView, ImageFormat};
use libdeflater::Decompressor;
use serde::de::DeserializeOwned;

use crate::geometry::TILE;
use crate::tools::client::{Answer, Client, Method};

/// The result of a check: nothing to report, a remark, or the reason why it failed.
pub(super) type Checked = Result<Option<String>, String>;

/// A header of a request.
pub(super) type Header = (&'static str, &'static str);

/// The origin of a viewer's page.
pub(super) const ORIGIN: Header = ("Origin", "http://viewer.example");
/// The request of a browser before it sends a custom header.
pub(super) const PREFLIGHT: &[Header] = &[
    ORIGIN,
    ("Access-Control-Request-Method", "GET"),
    ("Access-Control-Request-Headers", "x-requested-with"),
];
/// The edge of CATMAID's canvas for an overview.
const MAP: u32 = 192;
/// The most bytes of a chunk that are decoded.
const MAX_BYTES: u64 = 1 << 30;

/// A request that belongs to a check. A check passes if all its requests do.
pub(super) struct Request {
    pub check: &'static str,
    pub method: Method,
    pub url: String,
    pub headers: &'static [Header],
    /// In this order; the first that is not met decides.
    pub needs: Vec<Need>,
}

/// What a response must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    /// Status 200.
    Found,
    /// Status 404, because of this.
    Missing(&'static str),
    /// Anything but status 404, which this explains.
    NotMissing(&'static str),
    /// If the status is 404, nothing else is needed.
    MayBeMissing,
    /// An overview that CATMAID shows whole. Without one, it draws a grid.
    Overview,
    /// The response to a preflight that allows GET and any headers.
    Allowing,
    /// Pages of other origins may read it.
    Shared,
    /// The type of an image.
    ImageType,
    /// A PNG of the size of a tile.
    Tile,
    /// A tile that is black from this width and height on.
    BlackBeyond([u64; 2]),
    /// The tile at another URL.
    Shows(String),
    /// Headers that let a browser cache a tile and revalidate it without downloading it again.
    Cacheable,
    /// HEAD has the Content-Length of GET.
    Head,
    /// A length, and no coding: Viking reads as many bytes as it is told, and drops other responses.
    Plain,
    /// So many bytes once decoded; a precomputed chunk's coding is named in its headers.
    Bytes(Codec, u64),
    /// A chunk in the encoding compressed_segmentation, once decoded.
    Segmentation(Codec),
}

/// How the body of a chunk is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Zlib,
    Gzip,
    Zstd,
    /// As `Content-Encoding` says. cloud-volume accepts deflate in words, and fails on it.
    Named {
        is_cloud_volume: bool,
    },
}

impl Request {
    /// A GET request.
    pub fn get(
        check: &'static str,
        url: String,
        headers: &'static [Header],
        needs: impl Into<Vec<Need>>,
    ) -> Self {
        Self { check, method: Method::GET, url, headers, needs: needs.into() }
    }

    fn send(&self, client: &Client) -> Checked {
        let answer = client.request(&self.method, &self.url, self.headers)?;
        let mut note = None;
        for need in &self.needs {
            match need {
                Need::MayBeMissing if answer.status == 404 => return Ok(None),
                Need::Overview if answer.status == 404 => {
                    return Ok(Some(answer.wrong("there is no overview; CATMAID draws a grid instead")));
                }
                _ => {}
            }
            note = note.or(need.check(client, &answer)?);
        }
        Ok(note)
    }
}

/// Makes requests until one gets a response that it does not need.
pub(super) fn send_all(client: &Client, requests: &[Request]) -> Checked {
    requests.iter().try_fold(None, |note, request| Ok(note.or(request.send(client)?)))
}

/// A JSON document that pages of other origins may read, and the response that held it.
pub(super) fn document<T: DeserializeOwned>(
    client: &Client,
    url: &str,
    headers: &[Header],
) -> Result<(T, Answer), String> {
    let answer = client.request(&Method::GET, url, headers)?.found()?;
    Need::Shared.check(client, &answer)?;
    let value = serde_json::from_slice(&answer.body).map_err(|e| answer.wrong(e))?;
    Ok((value, answer))
}

impl Need {
    fn check(&self, client: &Client, answer: &Answer) -> Checked {
        let (status, length) = (answer.status, answer.body.len());
        let header = |name: &str| answer.header(name).unwrap_or("missing");
        let lists = |name: &str, wanted: &str| {
            answer.header(name).is_some_and(|list| list.to_ascii_lowercase().contains(wanted) || list == "*")
        };
        let problem = match self {
            Need::Found if status != 200 => return Err(answer.problem()),
            Need::Missing(why) if status != 404 => Some(format!("{why}, but the status is {status}")),
            Need::NotMissing(why) if status == 404 => Some((*why).to_owned()),
            Need::Overview => {
                let (width, height) = picture(answer)?.dimensions();
                let is_large = width.max(height) > MAP;
                is_large.then(|| format!("it is {width} × {height}; CATMAID shows {MAP} pixels of it"))
            }
            Need::Allowing if !(200..300).contains(&status) => {
                Some(format!("the response to OPTIONS is {status}"))
            }
            Need::Allowing if !lists("access-control-allow-methods", "get") => {
                Some("OPTIONS does not allow GET (Access-Control-Allow-Methods)".to_owned())
            }
            Need::Allowing if !lists("access-control-allow-headers", "x-requested-with") => {
                Some("OPTIONS does not allow headers (Access-Control-Allow-Headers)".to_owned())
            }
            Need::Shared => {
                let which = match answer.header("access-control-allow-origin") {
                    Some(origin) if origin == "*" || origin == ORIGIN.1 => return Ok(None),
                    Some(other) => format!("Access-Control-Allow-Origin is {other:?}"),
                    None => "there is no Access-Control-Allow-Origin".to_owned(),
                };
                Some(format!("{which}: pages of other origins may not read tiles; see server.cors_origins"))
            }
            Need::ImageType => match header("content-type") {
                kind if kind.starts_with("image") => None,
                "application/png" => {
                    let note = "its Content-Type is application/png: CATMAID draws such tiles only without WebGL; a mount with content_type = \"image/png\" fixes it";
                    return Ok(Some(note.to_owned()));
                }
                other => Some(format!("its Content-Type is {other}, not an image")),
            },
            Need::Tile => tile(answer).map(|_| None)?,
            Need::BlackBeyond([width, height]) => {
                let is_beyond = |x: u32, y: u32| u64::from(x) >= *width || u64::from(y) >= *height;
                let tile = tile(answer)?;
                let shown = tile.pixels().find(|(x, y, pixel)| is_beyond(*x, *y) && pixel.0[..3] != [0; 3]);
                shown.map(|(x, y, _)| format!("the pixel ({x}, {y}) lies beyond the volume and is not black"))
            }
            Need::Shows(url) => {
                let plain = client.get(url)?.found()?;
                let is_other = tile(answer)? != tile(&plain)?;
                is_other.then(|| format!("it shows something different from {}", plain.url))
            }
            Need::Cacheable if answer.header("cache-control").is_none() => {
                Some("there is no Cache-Control".to_owned())
            }
            Need::Cacheable => {
                let tag = answer.header("etag").ok_or_else(|| answer.wrong("there is no ETag"))?;
                let again = client.request(&Method::GET, &answer.url, &[("If-None-Match", tag)])?.status;
                (again != 304)
                    .then(|| format!("a browser that revalidates a cached tile gets status {again}, not 304"))
            }
            Need::Head => {
                let head = client.request(&Method::HEAD, &answer.url, &[])?.found()?;
                let stated = head.header("content-length").unwrap_or("missing");
                (stated != length.to_string())
                    .then(|| format!("HEAD says Content-Length {stated}, but GET returns {length} bytes"))
            }
            Need::Plain => match (answer.header("content-length"), answer.header("content-encoding")) {
                (None, _) => {
                    let why = "Viking drops the response (does a proxy compress or chunk it?)";
                    Some(format!("there is no Content-Length: {why}"))
                }
                (Some(stated), _) if stated.parse() != Ok(length) => {
                    Some(format!("Content-Length is {stated}, but there are {length} bytes"))
                }
                (_, Some(coding)) => Some(format!("it is encoded as {coding}, which Viking does not decode")),
                _ => None,
            },
            Need::Bytes(codec, bytes) => {
                let length = decoded(answer, *codec, *bytes)?.len();
                (length as u64 != *bytes)
                    .then(|| format!("it has {length} bytes; a chunk of this extent has {bytes}"))
            }
            Need::Segmentation(codec) => {
                // Its length is not known beforehand; gzip states it in its last four bytes.
                let stated = answer.body.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
                let decoded = decoded(answer, *codec, stated.into())?;
                // One channel: its data begin at the second 32-bit word.
                let offset = decoded.first_chunk().map(|word| u32::from_le_bytes(*word));
                (offset != Some(1)).then(|| "it does not begin as compressed_segmentation does".to_owned())
            }
            Need::Found | Need::Missing(_) | Need::NotMissing(_) | Need::MayBeMissing | Need::Allowing => {
                None
            }
        };
        problem.map_or(Ok(None), |problem| Err(answer.wrong(problem)))
    }
}

/// The picture in a response with status 200.
fn picture(answer: &Answer) -> Result<DynamicImage, String> {
    if answer.status != 200 {
        return Err(answer.problem());
    }
    image::load_from_memory_with_format(&answer.body, ImageFormat::Png)
        .map_err(|e| answer.wrong(format!("its {} bytes are not a PNG: {e}", answer.body.len())))
}

fn tile(answer: &Answer) -> Result<DynamicImage, String> {
    let picture = picture(answer)?;
    match (picture.width() as usize, picture.height() as usize) {
        (TILE, TILE) => Ok(picture),
        (width, height) => Err(answer.wrong(format!("the tile is {width} × {height}, not {TILE} × {TILE}"))),
    }
}

/// The body, decoded to at most `most` bytes.
fn decoded(answer: &Answer, codec: Codec, most: u64) -> Result<Vec<u8>, String> {
    let codec = match codec {
        Codec::Named { is_cloud_volume } => match answer.header("content-encoding").unwrap_or("identity") {
            "identity" => Codec::None,
            "gzip" => Codec::Gzip,
            "deflate" if is_cloud_volume => {
                return Err(answer.wrong("it is deflate, on which cloud-volume fails"));
            }
            "deflate" => Codec::Zlib,
            other => {
                return Err(answer.wrong(format!("its Content-Encoding is {other}, which few clients know")));
            }
        },
        codec => codec,
    };
    if most > MAX_BYTES {
        return Err(answer.wrong(format!("a chunk has {most} bytes, more than a client can hold")));
    }
    let (body, mut out) = (&answer.body, vec![0; most as usize]);
    let length = match codec {
        Codec::None | Codec::Named { .. } => return Ok(body.clone()),
        Codec::Zlib => Decompressor::new().zlib_decompress(body, &mut out).map_err(|e| e.to_string()),
        Codec::Gzip => Decompressor::new().gzip_decompress(body, &mut out).map_err(|e| e.to_string()),
        Codec::Zstd => zstd::bulk::decompress_to_buffer(body, &mut out).map_err(|e| e.to_string()),
    };
    out.truncate(length.map_err(|e| answer.wrong(format!("it cannot be decoded: {e}")))?);
    Ok(out)
}
