use super::*;

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 3, 5] {
        let pool = Pool::new(threads, None).unwrap();
        for tasks in [0, 1, 2, 7, 1000] {
            let hits: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(tasks, &|i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        }
    }
}

#[test]
fn wakes_after_parking_and_survives_many_rounds() {
    let pool = Pool::new(2, None).unwrap();
    let total = AtomicUsize::new(0);
    for round in 0..2000 {
        if round % 500 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        pool.run(3, &|i| {
            total.fetch_add(i, Ordering::Relaxed);
        });
    }
    assert_eq!(total.into_inner(), 6000);
}

/// A job comes in the very moment in which the worker gives up spinning and parks. In an emulator of AArch64 that lets a load
/// pass a store before it, the job's caller saw no parked worker and the worker no job: both waited for good.
#[test]
fn a_worker_that_is_just_parking_hears_of_a_job() {
    let pool = Pool::new(2, None).unwrap();
    let start = std::time::Instant::now();
    let word = AtomicUsize::new(0);
    for _ in 0..SPINS {
        std::hint::black_box(word.load(Ordering::Acquire));
        std::hint::spin_loop();
    }
    let spinning = start.elapsed();
    let mut rounds = 0;
    while start.elapsed() < std::time::Duration::from_secs(2) {
        // From three quarters of the time to five quarters of it.
        let wait = spinning * (750 + rounds % 500) / 1000;
        let from = std::time::Instant::now();
        while from.elapsed() < wait {
            std::hint::spin_loop();
        }
        pool.run(2, &|_| ());
        rounds += 1;
    }
    assert!(rounds > 10, "{rounds} rounds");
}

#[test]
fn a_limited_pool_runs_on_so_many_threads_and_can_be_widened_again() {
    let pool = Pool::new(4, None).unwrap();
    for round in 0..600 {
        let threads = [1, 3, 2, 4, 9][round % 5];
        pool.limit(threads);
        assert_eq!(pool.threads(), threads.min(4));
        if round % 150 == 149 {
            // Long enough for the idle ones to park.
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let seen = Mutex::new(std::collections::HashSet::new());
        let hits: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
        pool.run(64, &|i| {
            hits[i].fetch_add(1, Ordering::Relaxed);
            seen.lock().unwrap().insert(std::thread::current().id());
        });
        assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        assert!(seen.into_inner().unwrap().len() <= threads);
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let pool = Pool::new(3, None).unwrap();
    let caught = catch_unwind(AssertUnwindSafe(|| pool.run(64, &|i| assert!(i != 40, "task forty"))));
    assert!(caught.is_err());
    let sum = AtomicUsize::new(0);
    pool.run(10, &|i| {
        sum.fetch_add(i, Ordering::Relaxed);
    });
    assert_eq!(sum.into_inner(), 45);
}

#[test]
fn a_nested_run_still_finishes() {
    let pool = Pool::new(2, None).unwrap();
    let sum = AtomicUsize::new(0);
    pool.run(4, &|_| {
        pool.run(5, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        })
    });
    assert_eq!((sum.into_inner(), pool.collisions()), (40, 0));
}

#[test]
fn a_job_that_meets_a_busy_pool_is_done_and_counted() {
    let pool = Pool::new(2, None).unwrap();
    let sum = AtomicUsize::new(0);
    let add = |i: usize| {
        sum.fetch_add(i, Ordering::Relaxed);
    };
    pool.run(2, &|task| {
        if task == 0 {
            // Another thread, while this job is under way.
            std::thread::scope(|scope| {
                scope.spawn(|| pool.run(5, &add));
            });
        }
    });
    assert_eq!((sum.load(Ordering::Relaxed), pool.collisions()), (10, 1));
    // A panic inside a job leaves no trace of it.
    let caught = catch_unwind(AssertUnwindSafe(|| pool.run(4, &|_| panic!("a task"))));
    assert!(caught.is_err() && INSIDE.get() == 0);
    pool.run(5, &add);
    assert_eq!((sum.load(Ordering::Relaxed), pool.collisions()), (20, 1));
}

#[test]
fn parts_of_pieces_are_where_they_begin() {
    let pool = Pool::new(2, None).unwrap();
    let mut data = vec![0usize; 20];
    let strided = |places: &[(usize, usize)]| -> Vec<Strided> {
        places.iter().map(|&(start, stride)| Strided { start, stride }).collect()
    };
    // Two that lie among each other, and one after them.
    pool.pieces_mut(&mut data, &strided(&[(1, 5), (4, 5), (16, 2)]), 2, 2, &|i, part, piece| {
        piece.iter_mut().for_each(|v| *v += 10 * i + part + 1);
    });
    assert_eq!(data, [0, 1, 1, 0, 11, 11, 2, 2, 0, 12, 12, 0, 0, 0, 0, 0, 21, 21, 22, 22]);
    pool.pieces_mut(&mut data, &[], 1, 3, &|_, _, _| unreachable!());
    pool.pieces_mut(&mut data, &strided(&[(4, 3), (5, 3)]), 0, 3, &|_, _, _| unreachable!());
    for (places, parts, len) in [
        (&[(1, 3), (3, 3)][..], 1, 3),
        (&[(1, 2), (4, 2)], 2, 2),
        (&[(1, 5), (5, 5)], 2, 2),
        (&[(1, 6), (3, 6), (4, 6)], 2, 2),
        (&[(1, 5), (3, 6)], 2, 2),
        (&[(0, 2)], 2, 3),
        (&[(5, 1), (1, 1)], 1, 1),
        (&[(18, 1)], 3, 1),
        (&[(12, 4)], 3, 1),
        (&[(18, 3)], 1, 3),
        (&[(0, 21)], 1, 21),
        (&[(usize::MAX, 1)], 1, 1),
        (&[(0, usize::MAX)], 3, 1),
        (&[(0, 2)], usize::MAX, 2),
        (&[(0, usize::MAX), (usize::MAX - 1, usize::MAX)], 2, 2),
    ] {
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.pieces_mut(&mut data, &strided(places), parts, len, &|_, _, _| ());
        }));
        assert!(refused.is_err(), "{places:?} of {parts} times {len}");
    }
}

#[test]
fn chunks_and_tiles_cover_everything_once() {
    let pool = Pool::new(2, None).unwrap();
    let mut data = vec![0u32; 103];
    pool.chunks_mut(&mut data, 10, &|i, piece| piece.iter_mut().for_each(|v| *v += i as u32 + 1));
    assert!(data.iter().enumerate().all(|(at, &v)| v == at as u32 / 10 + 1));
    let mut matrix = vec![0u32; 7 * 11];
    let outs = [Some(MatrixTiles { data: matrix.as_mut_slice(), row_len: 11, tile_cols: 4 })];
    pool.tiles_mut(outs, 2, &|TileOf { row: r, col: c, .. }, mut tile| {
        for row in 0..tile.rows() {
            tile.row(row).iter_mut().for_each(|v| *v += (10 * r + c) as u32 + 1);
        }
    });
    for (at, &v) in matrix.iter().enumerate() {
        let (r, c) = (at / 11, at % 11);
        assert_eq!(v, (10 * (r / 2) + c / 4) as u32 + 1);
    }
}

#[test]
fn tiles_of_several_matrices_cover_each_once_and_first_rows_come_first() {
    let pool = Pool::new(1, None).unwrap();
    let (mut wide, mut narrow) = (vec![0usize; 7 * 11], vec![0usize; 7 * 3]);
    let order = Mutex::new(Vec::new());
    let outs = [
        Some(MatrixTiles { data: wide.as_mut_slice(), row_len: 11, tile_cols: 4 }),
        None,
        Some(MatrixTiles { data: narrow.as_mut_slice(), row_len: 3, tile_cols: 2 }),
    ];
    pool.tiles_mut(outs, 5, &|TileOf { matrix, row: r, col: c }, mut tile| {
        order.lock().unwrap().push((r, matrix, c));
        for row in 0..tile.rows() {
            tile.row(row).iter_mut().for_each(|item| *item += 1000 * matrix + 100 * r + 10 * row + c + 1);
        }
    });
    let spans = |r| [(r, 0, 0), (r, 0, 1), (r, 0, 2), (r, 2, 0), (r, 2, 1)];
    assert_eq!(order.into_inner().unwrap(), [spans(0), spans(1)].concat());
    let want = |matrix: usize, width: usize, cols: usize| -> Vec<usize> {
        let at = |row: usize, col: usize| 1000 * matrix + 100 * (row / 5) + 10 * (row % 5) + col / cols + 1;
        (0..7 * width).map(|i| at(i / width, i % width)).collect()
    };
    assert_eq!(wide, want(0, 11, 4));
    assert_eq!(narrow, want(2, 3, 2));
}
