//! Panels that are kept between starts: the version that stands for their bytes, and bytes that nobody packed.

use cpu::{Pages, Pool, ReadonlyBytes, Tier};
use kernels::{Activations, Compute, Matrix, PANEL_FORMAT_VERSION, Precision, matmul};
use tensor::Dtype;

/// What a panel of each format is, for registers of 4, 8 and 16 lanes: FNV-1a (Fowler, Noll, Vo) of its bytes, in
/// hexadecimal. If packing is meant to write other bytes, raise [`PANEL_FORMAT_VERSION`] and write here what the test
/// says.
const KNOWN: (u32, &str) = (
    2,
    "\
F32: 6d449244a4a42119 0224a19ded828850 8ce2eb98823cd122
F16: a7ad7785a6da6e2c ca850cf16a37e9ad a33f80490216e991
BF16: f2188a9c67880a77 a0d87ff4606fff18 4c7d92baf46c4955
Q4_0: fc5a4e887a517bc3 ad00d7ca8521da79 41ed90bd092ac52a
Q4_1: 519c1b38f0626bb4 6f220cf67f8e5a3f 9daa9a8b9d5ff74e
Q5_0: 021015fed86a0cb1 1ccf644150f1c7e1 a5605d3741e97e6f
Q5_1: 6fb42640fae89891 d46479425f254566 5393b743a9b28b0f
Q8_0: 1feee191c71df23f 9a84391743857e3e e86bb3bcc4a37266
Q2_K: 1d7ade3ae2c06f91 1349b10e8db8ce25 401e47a5124042ef
Q3_K: 6ae84cd903988be7 0c51580142409829 496fdd5c63a4260f
Q4_K: f7840a949c8a8a45 0098356c318292c3 89798f976a73c2eb
Q5_K: 98cf5777c2437ffa cc8c8e9217d6d058 df4693b09e6889b7
Q6_K: 66d284b136e25372 d8beea51ea32af50 73db8ec8f7df946a
IQ4_NL: fc5a4e887a517bc3 ad00d7ca8521da79 41ed90bd092ac52a
IQ4_XS: 6fefd154dde99e5d ecebd45a872bc168 6149b7d169eb952a
MXFP4: 6790a1af55d5837a bef040bd78c40909 973cbf92a49c52ee
NVFP4: 5f51d4bc9daa7385 b2fe6ed0025b47f9 a84b8e084666a712
IQ1_S: f2331d3648e108bd 43f25074fb7a362d 26c26277daed4ef2
IQ1_M: c2b023cee5af606f e881247077f2afb9 1c4dec7e5e4c288a
IQ2_XXS: f4d9bad29f2d36c1 2bc24cf731538c65 ec97821557e7a005
IQ2_XS: 99d923ae52d8b662 17b99559cb53f884 7a47b2490b7fa49e
IQ2_S: aa1f363d08e4b475 98cbb4df8c3d9073 bba4293930a19f36
IQ3_XXS: 4de87203a5102e5f f4839dbf0adcc142 5f2ce0525ecbad77
IQ3_S: a6322d3f40c0c8ea f6b39e69bcef2da0 a60735b167e57ce3
TQ1_0: b17397d1e9443525 da5ccc86cdbe9fcb 810e7cdf0606917e
TQ2_0: 3f4ea85b5e94bccf 523690a964e9c32c b445b42a78fbc9ec
BF16 in 12 bits: - - b11cec3c9085e838
",
);

const ROWS: usize = 13;
const COLS: usize = 512;

fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Bytes by chance, the same on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 56) as u8
    }

    fn frozen(&mut self, len: usize) -> ReadonlyBytes {
        let mut pages = Pages::new(len).unwrap();
        pages.iter_mut().for_each(|byte| *byte = self.next());
        pages.freeze()
    }
}

/// Rows of a file: any bits, but bfloat16 of few magnitudes with an exception here and there.
fn weights(dtype: Dtype) -> Vec<u8> {
    let mut chance = Chance(1);
    let mut bytes: Vec<u8> = (0..ROWS * dtype.row_bytes(COLS).unwrap()).map(|_| chance.next()).collect();
    if dtype == Dtype::BF16 {
        for (i, weight) in bytes.chunks_exact_mut(2).enumerate() {
            weight[1] = if i % 500 == 0 { 0x45 } else { 0x38 + weight[1] % 4 };
        }
    }
    bytes
}

/// Every layout that a format may have on some machine.
fn layouts() -> Vec<(Dtype, &'static str)> {
    let mut all: Vec<(Dtype, &str)> = Dtype::ALL.into_iter().map(|dtype| (dtype, dtype.name())).collect();
    all.push((Dtype::BF16, "BF16 in 12 bits"));
    all
}

#[test]
fn packing_writes_the_bytes_that_this_version_stands_for() {
    let mut now = String::new();
    for (dtype, layout) in layouts() {
        let bytes = weights(dtype);
        let hashes = [4, 8, 16].map(|lanes| {
            // The first panel, short of rows with 16 lanes.
            let rows = &bytes[..ROWS.min(lanes) * dtype.row_bytes(COLS).unwrap()];
            let panel = Matrix::panel_for(lanes, dtype, COLS, Precision::Fast, layout, rows);
            panel.map_or("-".to_owned(), |panel| format!("{:016x}", hash(&panel)))
        });
        now += &format!("{layout}: {}\n", hashes.join(" "));
    }
    let known = (PANEL_FORMAT_VERSION, now.as_str()) == KNOWN;
    assert!(
        known,
        "packing writes other bytes than version {}: raise PANEL_FORMAT_VERSION, and note here\n{now}",
        KNOWN.0
    );
}

#[test]
fn panels_make_the_matrix_that_they_came_from_and_no_other() {
    for tier in Tier::available() {
        let compute = Compute::new(tier, Pool::new(1, None).unwrap());
        for (dtype, p) in pairs() {
            let bytes = if dtype == Dtype::BF16 {
                weights(dtype)
            } else {
                let values: Vec<f32> = (0..ROWS * COLS).map(|i| (i % 91) as f32 / 91.0 - 0.5).collect();
                let mut bytes = Vec::new();
                tensor::quantize(dtype, &values, &mut bytes).unwrap();
                bytes
            };
            let packed = Matrix::pack(&compute, dtype, ROWS, COLS, &bytes, p).unwrap();
            let again = |rows, layout, len: usize| {
                let mut pages = Pages::new(len).unwrap();
                let shared = len.min(packed.panels().len());
                pages[..shared].copy_from_slice(&packed.panels()[..shared]);
                Matrix::from_panels(tier, dtype, rows, COLS, p, layout, packed.max_exponent(), pages.freeze())
            };
            let (name, len) = (packed.layout_name(), packed.panels().len());
            assert_eq!(Matrix::panels_bytes(tier, dtype, ROWS, COLS, p, name), Some(len));
            let back = again(ROWS, name, len).unwrap();
            let (mut row, mut same) = (vec![0.0; COLS], vec![0.0; COLS]);
            packed.row_into(ROWS - 1, &mut row);
            back.row_into(ROWS - 1, &mut same);
            assert_eq!(row, same, "{dtype} {p:?}");
            assert_eq!(back.activations(), packed.activations());
            assert!(again(ROWS, name, len - 1).is_err());
            assert!(again(9 * ROWS, name, len).is_err());
            let said = again(ROWS, "MXFP2", len).err().unwrap().to_string();
            assert!(said.contains("MXFP2") && said.contains("13 × 512"), "{said}");
        }
    }
    let whole = |cols| Matrix::panels_bytes(Tier::Scalar, Dtype::Q4_K, 8, cols, Precision::Fast, "Q4_K");
    assert!(whole(256).is_some() && whole(300).is_none(), "rows of whole blocks");
}

fn pairs() -> impl Iterator<Item = (Dtype, Precision)> {
    let precisions = [Precision::Fast, Precision::Fine, Precision::F32];
    Dtype::ALL.into_iter().flat_map(move |dtype| precisions.map(|p| (dtype, p)))
}

/// A file may be damaged, and panels are not looked at when they are loaded.
#[test]
fn panels_of_bits_by_chance_give_some_sums_and_no_panic() {
    let mut chance = Chance(7);
    for tier in Tier::available() {
        let compute = Compute { prompt_tiles: true, ..Compute::new(tier, Pool::new(1, None).unwrap()) };
        for (dtype, p) in pairs() {
            for layout in [dtype.name(), "F32", "BF16 in 12 bits"] {
                let Some(len) = Matrix::panels_bytes(tier, dtype, 3 * ROWS, COLS, p, layout) else {
                    continue;
                };
                let panels = chance.frozen(len);
                let power = [0, -8, i32::MIN, i32::MAX][usize::from(chance.next()) % 4];
                let w = Matrix::from_panels(tier, dtype, 3 * ROWS, COLS, p, layout, power, panels).unwrap();
                for rows in [1, 3, 16, 70] {
                    let x: Vec<f32> = (0..rows * COLS).map(|_| f32::from(chance.next()) / 99.0).collect();
                    for answers in [rows, 0] {
                        let mut a = Activations::new(rows, COLS);
                        a.set(&compute, &x, COLS, w.activations(), answers);
                        let mut out = vec![0.0; rows * w.rows()];
                        matmul(&compute, &w, &a, &mut out);
                    }
                }
                let mut row = vec![0.0; COLS];
                (0..w.rows()).for_each(|at| w.row_into(at, &mut row));
            }
        }
    }
}

/// Machines whose tiers all have narrow registers read no such panels: the code is taken in here, and run on these.
#[expect(dead_code, reason = "a part of it is tried")]
#[path = "../../src/bf16_dict12.rs"]
mod bf16_dict12;

#[test]
fn exceptions_at_places_by_chance_are_left_out() {
    struct Decode<'a>(&'a [u8], usize);
    impl cpu::simd::Job for Decode<'_> {
        type Out = ();
        fn run<S: cpu::simd::Simd>(self, s: S) {
            let mut out = vec![0; bf16_dict12::k_block_bytes(S::LANES)];
            (0..self.1.div_ceil(bf16_dict12::K_BLOCK)).for_each(|k_block| {
                bf16_dict12::PanelDecoder::new(self.0, S::LANES, self.1, k_block).decode_into(
                    s,
                    usize::MAX,
                    1,
                    &mut out,
                );
            });
        }
    }
    let (lanes, cols) = (cpu::simd::lanes(Tier::Scalar), 512 + 96);
    let mut chance = Chance(3);
    for round in 0..200 {
        let mut panel: Vec<u8> = (0..bf16_dict12::panel_bytes(lanes, cols)).map(|_| chance.next()).collect();
        if round % 2 == 0 {
            // Behind the table of 16 bytes: all exceptions in the first two pieces, wherever they say that they are.
            panel[16..24].copy_from_slice(&[0, 0, 9, 0, 19, 0, 19, 0]);
        }
        let mut out = vec![0.0; cols];
        (0..lanes).for_each(|lane| bf16_dict12::row(lanes, cols, lane, &panel, &mut out));
        cpu::simd::dispatch(Tier::Scalar, Decode(&panel, cols));
    }
}
