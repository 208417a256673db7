//! Times a model on inputs from files: the half of `tools/peers/onnx_graphs.py` that runs here.
//!
//! `run MODEL THREADS`, then lines on standard input:
//!
//! - `input NAME TYPE DIMS FILE`: an input, raw little-endian; dimensions with commas between (`float32 64,28`), or `-`
//! - `time N`: runs N times, and prints the nanoseconds of each
//! - `save FOLDER`: runs once, and writes each output that is a tensor of numbers as `FOLDER/NUMBER.bin` (f64)
#![allow(clippy::print_stdout, reason = "an example speaks to the script that started it")]

use std::io::{BufRead, Write};
use std::time::Instant;

use onnx::{Data, NeuralThreads, Options, RunOptions, Session, Tensor, Value};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("run MODEL THREADS")?;
    let threads: usize = arguments.next().ok_or("run MODEL THREADS")?.parse()?;
    let start = Instant::now();
    let session = Session::load(path.as_ref(), &Options::default())?;
    let pool = cpu::Pool::new(threads, None)?;
    println!("loaded {} {} {:?}", start.elapsed().as_micros(), session.bytes(), session.runtime());
    let neural = NeuralThreads::new(threads);
    let options = RunOptions { pool: Some(&pool), neural: Some(&neural), stop: None };
    let mut inputs: Vec<(String, Value)> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let run = || -> Result<Vec<Value>, onnx::Error> {
            let named: Vec<(&str, &Value)> = inputs.iter().map(|(name, value)| (&**name, value)).collect();
            let wanted: Vec<&str> = session.outputs().iter().map(|info| &*info.name).collect();
            session.run(&named, &wanted, &options)
        };
        match words[..] {
            ["input", name, kind, dims, file] => {
                inputs.retain(|(known, _)| known != name);
                inputs.push((name.to_owned(), read(kind, dims, file)?));
                println!("ok");
            }
            ["time", count] => {
                let mut times = Vec::new();
                for _ in 0..count.parse::<usize>()? {
                    let start = Instant::now();
                    run()?;
                    times.push(start.elapsed().as_nanos().to_string());
                }
                println!("{}", times.join(" "));
            }
            ["save", folder] => {
                for (at, value) in run()?.iter().enumerate() {
                    save(value, &format!("{folder}/{at}.bin"))?;
                }
                println!("ok");
            }
            _ => return Err(format!("the line '{line}' is unknown").into()),
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn read(kind: &str, dims: &str, file: &str) -> Result<Value, Failure> {
    let shape: Vec<usize> =
        if dims == "-" { Vec::new() } else { dims.split(',').map(str::parse).collect::<Result<_, _>>()? };
    let bytes = std::fs::read(file)?;
    let data = match kind {
        "float32" => Data::F32(bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()),
        "int64" => Data::I64(bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect()),
        "int32" => Data::I32(bytes.as_chunks().0.iter().map(|&b| i32::from_le_bytes(b)).collect()),
        other => return Err(format!("type {other}").into()),
    };
    Ok(Value::Tensor(Tensor::new(shape, data)?))
}

fn save(value: &Value, file: &str) -> Result<(), Failure> {
    let Value::Tensor(tensor) = value else { return Ok(()) };
    let numbers: Vec<f64> = match tensor.data() {
        Data::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        Data::F64(v) => v.clone(),
        Data::I64(v) => v.iter().map(|&x| x as f64).collect(),
        Data::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        _ => return Ok(()),
    };
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    Ok(std::fs::write(file, bytes)?)
}
