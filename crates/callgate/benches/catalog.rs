//! Measures the catalog by size: the build, a cached page, a listing for new grants, and memory. `cargo xtask bench`
//! runs it.
#![expect(missing_docs, reason = "criterion's macros make undocumented functions")]
#![expect(clippy::expect_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use callgate::catalog::{Catalog, CatalogBuilder};
use callgate::gateway::Gateway;
use callgate::model::{Method, Param, Prefix, Safety, Types};
use callgate::{Caller, Grants, Mask, User};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use peak_alloc::PeakAlloc;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const SIZES: [usize; 3] = [50, 5_000, 100_000];
const SECTIONS: usize = 20;
const MASKS: [Mask; 3] = [Mask::Read, Mask::Write, Mask::Execute];

/// Returns a method as applications have them: three parameters, two sentences, a section.
fn method(number: usize) -> Method {
    let parse = |text: &str| text.parse().expect("a type");
    let mask = MASKS.get(number % MASKS.len()).copied().unwrap_or(Mask::Execute);
    Method::new(format!("module{}.resource.action{number}", number % 97).parse().expect("an id"))
        .title(format!("Action {number}"))
        .description(format!(
            "Does action {number} on a resource. Takes the resource's number and optional filters, \
             and returns the items that match together with how many there are in all."
        ))
        .param(Param::new("id", parse("int")).description("The resource's number."))
        .param(
            Param::new("tags", parse("string[]")).description("Only with these tags.").optional(),
        )
        .param(Param::new("order", parse("'asc'|'desc'")).default(json!("asc")))
        .returns(parse("array{items: array{id: int, name: string}[], total: int}"))
        .safety(Safety::ReadOnly)
        .requires(format!("section{}", number % SECTIONS), mask)
}

fn methods(size: usize) -> Vec<Method> {
    (0..size).map(method).collect()
}

fn build(methods: Vec<Method>) -> Catalog {
    let types = Types::default();
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    for (fingerprint, method) in (0..).zip(methods) {
        builder.add(method, fingerprint, &types, []);
    }
    builder.finish()
}

fn rebuild(previous: &Arc<Catalog>) -> Catalog {
    let mut builder = CatalogBuilder::new(Prefix::default(), Some(Arc::clone(previous)));
    for number in 0..previous.len() {
        let id = format!("module{}.resource.action{number}", number % 97);
        assert!(builder.reuse(&id, number as u64, None), "nothing changed");
    }
    builder.finish()
}

/// Returns grants that are different for each number.
fn grants(number: usize) -> Grants {
    let all = [Mask::None, Mask::Read, Mask::Write, Mask::Execute];
    let digit = |section: u32| (number >> (2 * section)) % 4;
    (0..SECTIONS)
        .zip(0_u32..)
        .map(|(section, place)| {
            let mask = all.get(digit(place)).copied().unwrap_or_default();
            (format!("section{section}"), mask)
        })
        .collect()
}

fn catalog(criterion: &mut Criterion) {
    for size in SIZES {
        report_once(size);
    }
    let mut group = criterion.benchmark_group("warm page of 50");
    for size in SIZES {
        let gateway = Gateway::new([]);
        gateway.set_catalog(Arc::new(build(methods(size))));
        let user = User { id: 1, name: "bench".to_owned(), role: None };
        let all = (0..SECTIONS).map(|section| (format!("section{section}"), Mask::Execute));
        let caller = Caller::user(user, all.collect());
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter(|| black_box(gateway.list(black_box(&caller), 0, 50)));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("cold listing");
    for size in SIZES {
        let catalog = build(methods(size));
        let mut number = 0;
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter_batched(
                || {
                    number += 1;
                    grants(number)
                },
                |grants| black_box(catalog.listing(&grants)),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    for size in SIZES {
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter_batched(|| methods(size), build, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// Reports values that criterion does not measure: memory, and the duration of one complete build.
fn report_once(size: usize) {
    let before = ALLOCATOR.current_usage();
    let input = methods(size);
    let started = Instant::now();
    let catalog = Arc::new(build(input));
    let built = started.elapsed();
    let used = ALLOCATOR.current_usage() - before;
    let serialised = catalog.serialised_bytes();
    let started = Instant::now();
    let again = rebuild(&catalog);
    let rebuilt = started.elapsed();
    assert_eq!((catalog.len(), again.len()), (size, size));
    let line = format!(
        "{size} methods: built in {built:?}, built again with nothing changed in {rebuilt:?}; {} \
         serialised bytes and {} other bytes per method",
        serialised / size,
        used.saturating_sub(serialised) / size,
    );
    let _ = writeln!(std::io::stdout(), "{line}");
}

criterion_group!(benches, catalog);
criterion_main!(benches);
