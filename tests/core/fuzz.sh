#!/usr/bin/env bash
# Builds each fuzzer with clang, sanitizers in it, and runs it for so many seconds. What ends one is left in build/fuzz.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/fuzz
for name in fuzz_table fuzz_snapshot fuzz_example fuzz_record_file fuzz_inflated_file fuzz_served_table fuzz_message \
  fuzz_predict_request fuzz_arrow_columns fuzz_calls fuzz_store_service; do
  clang++-14 -std=c++20 -g -O1 -march=x86-64-v3 -ffp-contract=off -fsanitize=fuzzer,address,undefined \
    -Wno-unknown-pragmas -DAFO_LIBFUZZER -I. "tests/core/$name.cc" afo/core/*.cc \
    afo/psplus/{buffer,service,store_service,tickets}.cc -lz -o "build/fuzz/$name"
  (cd build/fuzz && "./$name" -max_total_time="$1" -max_len=2048 -rss_limit_mb=4096 -print_final_stats=1)
done
