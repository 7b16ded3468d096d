//! The data layout message is found in every form of object header, wherever it lies.

use std::cell::Cell;
use std::ops::Range;

use bytes::Bytes;

use super::*;
use crate::volume::hdf5::library::Superblock;

const ROOT: u64 = 0x1234_5678;
/// The layout class of contiguous data.
const CONTIGUOUS: u8 = 1;
/// An attribute message.
const ATTRIBUTE: u8 = 0x0C;

/// Looks for the tree of a dataset of two axes in the header at byte 64. Returns the number of
/// reads, too.
fn looked(file: &[u8]) -> (Result<Option<ChunkTree>, String>, usize) {
    let calls = Cell::new(0);
    let read_many = |ranges: &[Range<u64>]| {
        calls.set(calls.get() + 1);
        let read = |range: &Range<u64>| {
            Bytes::copy_from_slice(&file[range.start as usize..range.end as usize])
        };
        Ok(ranges.iter().map(read).collect())
    };
    let superblock = Superblock {
        base: 16,
        address_size: 8,
        length_size: 8,
        chunk_tree_k: 32,
    };
    let metadata = Metadata {
        superblock,
        length: file.len() as u64,
        read_many: &read_many,
    };
    let found = tree(&metadata, 64 - 16, 2).map_err(|error| match error {
        IndexError::Wrong(problem) => problem,
        IndexError::Read(error) => error.to_string(),
    });
    (found, calls.get())
}

/// A file with these pieces at these bytes.
fn file(pieces: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let end = pieces
        .iter()
        .map(|(at, bytes)| at + bytes.len())
        .max()
        .unwrap();
    let mut file = vec![0xEE; end];
    pieces
        .iter()
        .for_each(|(at, bytes)| file[*at..at + bytes.len()].copy_from_slice(bytes));
    file
}

/// A message of version 1.
fn old(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len().next_multiple_of(8);
    let mut message = vec![kind, 0, length as u8, (length >> 8) as u8, flags, 0, 0, 0];
    message.extend_from_slice(body);
    message.resize(8 + length, 0);
    message
}

/// A message of version 2, with a creation index.
fn new(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    [
        &[kind, body.len() as u8, (body.len() >> 8) as u8, flags, 9, 0],
        body,
    ]
    .concat()
}

/// A header of version 1.
fn old_header(messages: &[Vec<u8>]) -> Vec<u8> {
    let body = messages.concat();
    let size = (body.len() as u32).to_le_bytes();
    [
        &[1, 0, messages.len() as u8, 0, 1, 0, 0, 0][..],
        &size,
        &[0; 4],
        &body,
    ]
    .concat()
}

/// A header of version 2 with times, limits of attributes, creation indexes and a size of two
/// bytes.
fn new_header(messages: &[Vec<u8>]) -> Vec<u8> {
    let body = messages.concat();
    let size = (body.len() as u16).to_le_bytes();
    [b"OHDR\x02\x35", &[0; 20][..], &size, &body, &[0; 4]].concat()
}

/// A further block of a header of version 2, with a gap.
fn further(messages: &[Vec<u8>]) -> Vec<u8> {
    [b"OCHK", &messages.concat()[..], &[0; 3], &[0; 4]].concat()
}

/// Of version 3, for chunks of two axes.
fn layout(class: u8) -> Vec<u8> {
    let dims = [5_u32, 4, 2].map(u32::to_le_bytes).concat();
    [&[3, class, 3][..], &ROOT.to_le_bytes(), &dims].concat()
}

/// The address relative to the base, and the length, of a block.
fn continuation(at: u64, block: &[u8]) -> Vec<u8> {
    [(at - 16).to_le_bytes(), (block.len() as u64).to_le_bytes()].concat()
}

fn found(root: Option<u64>) -> Result<Option<ChunkTree>, String> {
    Ok(Some(ChunkTree {
        root,
        dimensions: 3,
    }))
}

#[test]
fn the_layout_is_found_in_the_first_block_and_in_further_ones() {
    let attribute = [7; 100];
    let header = old_header(&[old(ATTRIBUTE, 0, &attribute), old(8, 0, &layout(CHUNKED))]);
    assert_eq!(looked(&file(&[(64, header)])), (found(Some(ROOT)), 1));
    let header = new_header(&[new(ATTRIBUTE, 0, &attribute), new(8, 0, &layout(CHUNKED))]);
    assert_eq!(looked(&file(&[(64, header)])), (found(Some(ROOT)), 1));

    let large = old_header(&[old(ATTRIBUTE, 0, &[7; 9000]), old(8, 0, &layout(CHUNKED))]);
    assert_eq!(looked(&file(&[(64, large)])), (found(Some(ROOT)), 2));

    let last = old(8, 0, &layout(CHUNKED));
    let middle = [
        old(ATTRIBUTE, 0, &attribute),
        old(16, 0, &continuation(900, &last)),
    ]
    .concat();
    let header = old_header(&[old(16, 0, &continuation(400, &middle))]);
    assert_eq!(
        looked(&file(&[(64, header), (400, middle), (900, last)])),
        (found(Some(ROOT)), 3)
    );

    let last = further(&[new(8, 0, &layout(CHUNKED))]);
    let middle = further(&[new(16, 0, &continuation(900, &last))]);
    let header = new_header(&[new(16, 0, &continuation(400, &middle))]);
    assert_eq!(
        looked(&file(&[(64, header), (400, middle), (900, last)])),
        (found(Some(ROOT)), 3)
    );
}

#[test]
fn every_version_of_the_layout_is_known() {
    let look = |body: &[u8]| looked(&file(&[(64, old_header(&[old(8, 0, body)]))])).0;
    let mut never = layout(CHUNKED);
    never[3..11].fill(0xFF);
    assert_eq!(look(&never), found(None));
    let second = [
        &[2, 3, CHUNKED, 0, 0, 0, 0, 0][..],
        &ROOT.to_le_bytes(),
        &[1; 12],
    ]
    .concat();
    assert_eq!(look(&second), found(Some(ROOT)));
    let contiguous = [
        &[1, 2, CONTIGUOUS, 0, 0, 0, 0, 0][..],
        &ROOT.to_le_bytes(),
        &[1; 12],
    ]
    .concat();
    assert_eq!(look(&contiguous), Ok(None));
    assert_eq!(look(&layout(CONTIGUOUS)), Ok(None));
    assert_eq!(look(&[4, CHUNKED, 0, 3]), Ok(None));
    assert_eq!(look(&[5, CHUNKED, 0, 3]), Ok(None));
}

#[test]
fn headers_that_are_not_understood_are_errors() {
    let problem = |pieces: &[(usize, Vec<u8>)]| looked(&file(pieces)).0.unwrap_err();
    let layout = layout(CHUNKED);
    let cases = [
        (b"TREE".repeat(9), "but \"TREE\" is there"),
        (
            b"OHDR\x03\0\0\0\0\0\0\0\0\0".to_vec(),
            "version 2 of an object header is expected at byte 68",
        ),
        (
            old_header(&[old(8, 2, &layout)]),
            "but a shared one is there",
        ),
        (
            old_header(&[old(8, 0, &[6, 2, 3])]),
            "version 1 to 5 of a data layout message is expected at byte 88",
        ),
        (
            old_header(&[old(ATTRIBUTE, 0, &[0; 8])]),
            "with a data layout message",
        ),
        (
            old_header(&[old(8, 0, &[3, CHUNKED, 5, 0, 0, 0, 0, 0, 0, 0, 0])]),
            "one with chunks of 5 dimensions",
        ),
        (
            old_header(&[old(16, 0, &[0xFF; 16])]),
            "the address of a block is expected at byte 88",
        ),
        (old_header(&[old(8, 0, &layout)])[..30].to_vec(), "but only"),
    ];
    for (header, wanted) in cases {
        let problem = problem(&[(64, header)]);
        assert!(
            problem.contains(wanted),
            "{problem:?} instead of {wanted:?}"
        );
    }
    let itself = old(16, 0, &continuation(400, &[0; 24]));
    let problem_of_loop = problem(&[
        (64, old_header(std::slice::from_ref(&itself))),
        (400, itself),
    ]);
    assert!(
        problem_of_loop.contains("already referred to"),
        "{problem_of_loop}"
    );
    let not_a_block = [0x11; 24];
    let header = new_header(&[new(16, 0, &continuation(400, &not_a_block))]);
    let problem_of_block = problem(&[(64, header), (400, not_a_block.to_vec())]);
    assert!(
        problem_of_block.contains("\"OCHK\" is expected at byte 400"),
        "{problem_of_block}"
    );
    let huge = [
        &(400_u64 - 16).to_le_bytes()[..],
        &(1_u64 << 40).to_le_bytes(),
    ]
    .concat();
    let problem_of_size = problem(&[(64, old_header(&[old(16, 0, &huge)])), (400, vec![0; 24])]);
    assert!(
        problem_of_size.contains("an object header of at most"),
        "{problem_of_size}"
    );
}
