//! `/voxels/`: NumPy files, raw bytes and hyperstacks for ImageJ.

use ndarray::ArrayD;

use super::{Block, Case, Format, arranged, dtype, width};
use crate::common::wire::{Answer, Connection};

/// An `.npy` file: its type, its shape and its data.
pub fn npy(answer: &Answer) -> (String, Vec<usize>, Vec<u8>) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = &answer.body;
    assert_eq!(&body[..8], b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([body[8], body[9]]));
    assert_eq!(end % 64, 0, "the data is aligned");
    let header = std::str::from_utf8(&body[10..end]).unwrap();
    assert!(
        header.ends_with('\n') && header.contains("'fortran_order': False"),
        "{header}"
    );
    let after = |key: &str| header.split_once(key).unwrap().1;
    let descr = after("'descr': '").split('\'').next().unwrap().to_owned();
    let shape = after("'shape': (").split(')').next().unwrap();
    (descr, numbers(shape), body[end..].to_vec())
}

fn numbers(list: &str) -> Vec<usize> {
    list.split(',')
        .filter(|part| !part.trim().is_empty())
        .map(|part| part.trim().parse().unwrap())
        .collect()
}

/// The pages of a TIFF file as bytes of the data, and its description and resolutions.
pub fn pages(answer: &Answer) -> (Vec<Vec<u8>>, String, Vec<f64>) {
    use tiff::decoder::{Decoder, DecodingResult};
    use tiff::tags::Tag;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("image/tiff")),
        "{}",
        answer.text()
    );
    let mut file = Decoder::new(std::io::Cursor::new(&answer.body)).unwrap();
    let description = file.get_tag_ascii_string(Tag::ImageDescription).unwrap();
    let resolution = |tag| match file.find_tag(tag).unwrap() {
        Some(tiff::decoder::ifd::Value::Rational(n, d)) => Some(f64::from(n) / f64::from(d)),
        _ => None,
    };
    let resolutions: Vec<f64> = [Tag::XResolution, Tag::YResolution]
        .into_iter()
        .filter_map(resolution)
        .collect();
    let mut pages = Vec::new();
    loop {
        pages.push(match file.read_image().unwrap() {
            DecodingResult::U8(page) => page,
            DecodingResult::U16(page) => page.into_iter().flat_map(u16::to_le_bytes).collect(),
            DecodingResult::I16(page) => page.into_iter().flat_map(i16::to_le_bytes).collect(),
            DecodingResult::F32(page) => page.into_iter().flat_map(f32::to_le_bytes).collect(),
            _ => panic!("ImageJ has no such images"),
        });
        if !file.more_images() {
            return (pages, description, resolutions);
        }
        file.next_image().unwrap();
    }
}
/// A kind of file.
pub struct Voxels(pub &'static str);

impl Format for Voxels {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn read(&self, connection: &mut Connection, case: &Case<'_>) -> Vec<Block> {
        let [z, y, x] = case.region.clone();
        let part = format!(
            "{}-{}_{}-{}_{}-{}",
            x.start, x.end, y.start, y.end, z.start, z.end
        );
        let time = if case.has_times() {
            format!("?time={}", case.time)
        } else {
            String::new()
        };
        let channel = format!("{}/{}", escaped(case.token), escaped(case.name()));
        let answer = connection.get(&format!(
            "/voxels/{channel}/{}/{part}.{}{time}",
            case.number(),
            self.0
        ));
        if answer.status != 200 {
            return Vec::new();
        }
        let (dtype, shape, bytes) = match self.0 {
            "npy" => {
                let (descr, shape, bytes) = npy(&answer);
                (
                    dtype(descr.chars().nth(1).unwrap(), descr[2..].parse().unwrap()),
                    shape,
                    bytes,
                )
            }
            "raw" => {
                let header = |name: &str| answer.header(name).unwrap().to_owned();
                (
                    header("x-voltile-type"),
                    numbers(&header("x-voltile-shape")),
                    answer.body.clone(),
                )
            }
            _ => {
                let mut shape = case
                    .region
                    .iter()
                    .map(ExactSizeIterator::len)
                    .collect::<Vec<_>>();
                shape.extend((case.components() > 1).then_some(case.components()));
                (
                    case.channel["dtype"].as_str().unwrap().to_owned(),
                    shape,
                    pages(&answer).0.concat(),
                )
            }
        };
        let axes = if shape.len() > 3 { "zyxc" } else { "zyx" };
        let shape = [shape, vec![width(&dtype)]].concat();
        vec![Block {
            bytes: arranged(ArrayD::from_shape_vec(shape, bytes).unwrap(), axes),
            dtype,
        }]
    }
}

/// A name in an address.
pub fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace(' ', "%20")
}
