#include "afo/core/layered_table.h"

#include <doctest/doctest.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "afo/core/mapped_file.h"
#include "afo/core/mapped_tables.h"
#include "afo/core/served_writer.h"
#include "afo/core/snapshot.h"

namespace afo {
namespace {

constexpr float kAbsent = -1;

// What a layer says of keys: their one weight, or that they are removed.
using Changes = std::map<std::int64_t, std::optional<float>>;

struct Written {
  std::string bytes;
  ServedLayout layout;
};

Written Write(const Changes& changes, std::uint64_t parent) {
  std::string rows, removed;
  Sealing sealing{.header = {.type = RowType::kFloat32, .dim = 1, .count = 0, .absent = kAbsent}, .parent = parent};
  if (parent != 0) sealing.parent_path = "../before.rows";
  for (const auto& [key, weight] : changes) {
    std::string& to = weight ? rows : removed;
    to.append(reinterpret_cast<const char*>(&key), sizeof(key));
    if (weight) to.append(reinterpret_cast<const char*>(&*weight), sizeof(float));
    ++(weight ? sealing.header.count : sealing.removed);
  }
  const std::string content = rows + removed;
  sealing.rows_checksum = Crc32c(content.data(), content.size());
  FILE* file = tmpfile();
  REQUIRE(file != nullptr);
  const OpenFile open{fileno(file)};
  const std::uint64_t rows_at = ServedLayout{.header = {}, .parent_path = sealing.parent_path}.rows_at();
  REQUIRE(open.Write(rows_at, content.data(), content.size()) == 0);
  const Sealed sealed = Seal(open, sealing);
  REQUIRE(sealed.error == 0);
  REQUIRE(sealed.wrong.empty());
  fseek(file, 0, SEEK_END);
  Written written{.bytes = std::string(static_cast<std::size_t>(ftell(file)), '\0'), .layout = {}};
  REQUIRE(open.Read(0, written.bytes.data(), written.bytes.size()) == 0);
  fclose(file);
  const ParsedServedLayout parsed = ParseServedLayout(written.bytes.data(), written.bytes.size());
  REQUIRE(parsed.wrong.empty());
  written.layout = parsed.layout;
  return written;
}

std::shared_ptr<const IndexedTable> Open(const Written& written) {
  const ReadAt read = [&written](std::uint64_t offset, char* to, std::size_t size) -> std::string {
    std::memcpy(to, written.bytes.data() + offset, size);
    return "";
  };
  auto table = std::make_shared<IndexedTable>(written.layout, "layer");
  REQUIRE(table->ReadSums(read).empty());
  REQUIRE(table->Copy(read, [] { return false; }).empty());
  return table;
}

TEST_CASE("layered_table_test: the newest layer that knows a key answers") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::shared_ptr<const IndexedTable>> layers;
    std::map<std::int64_t, float> expected;
    std::uint64_t parent = 0;
    for (int depth = 0; depth <= round % 5; ++depth) {
      Changes changes;
      for (int i = 0; i < 400; ++i) {
        const auto key = static_cast<std::int64_t>(random() % 900) - 450;
        const bool is_removed = depth > 0 && random() % 4 == 0;
        changes[key] = is_removed ? std::nullopt : std::optional(static_cast<float>(random() % 1000));
      }
      for (const auto& [key, weight] : changes) {
        if (weight) {
          expected[key] = *weight;
        } else {
          expected.erase(key);
        }
      }
      const Written written = Write(changes, parent);
      CHECK(written.layout.is_whole() == (depth == 0));
      CHECK(written.layout.parent_path == (depth == 0 ? "" : "../before.rows"));
      parent = written.layout.id();
      layers.insert(layers.begin(), Open(written));
    }
    const LayeredTable table(layers);
    std::vector<std::int64_t> keys;
    for (std::int64_t key = -500; key < 500; ++key) keys.push_back(key);
    std::shuffle(keys.begin(), keys.end(), random);
    keys.push_back(keys.front());
    std::vector<float> found(keys.size(), 7);
    REQUIRE(table.Lookup(keys.data(), static_cast<std::int64_t>(keys.size()), found.data()).empty());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto there = expected.find(keys[i]);
      CHECK(found[i] == (there == expected.end() ? kAbsent : there->second));
    }
  }
}

TEST_CASE("layered_table_test: a damaged layer is an error and no answer of the layers below") {
  const Written whole = Write({{1, 10.0f}, {2, 20.0f}}, 0);
  const Written changes = Write({{1, 11.0f}, {2, std::nullopt}}, whole.layout.id());
  for (std::size_t at = changes.layout.rows_at(); at < changes.layout.sums_at(); at += 7) {
    Pages memory;
    REQUIRE(memory.Grow(changes.bytes.size()));
    std::memcpy(memory.data(), changes.bytes.data(), changes.bytes.size());
    memory.data()[at] ^= 1;
    auto layer = std::make_shared<IndexedTable>(changes.layout, "layer");
    REQUIRE(layer
                ->ReadSums([&](std::uint64_t offset, char* to, std::size_t size) -> std::string {
                  std::memcpy(to, changes.bytes.data() + offset, size);
                  return "";
                })
                .empty());
    layer->Map(memory.data());
    const LayeredTable table({layer, Open(whole)});
    const std::int64_t keys[] = {1, 2};
    float found[2];
    const std::string wrong = table.Lookup(keys, 2, found);
    CHECK(wrong.find("layer: it is damaged in bytes ") == 0);
  }
}

TEST_CASE("layered_table_test: versions come and go while others look up") {
  // As the resource of a served model does it: whoever looks up keeps the table that was there when it began.
  constexpr int kVersions = 12, kReaders = 3;
  const auto directory = [] {
    char path[] = "/tmp/afo_layers_XXXXXX";
    REQUIRE(mkdtemp(path) != nullptr);
    return std::string(path);
  }();
  std::mutex mutex;
  std::shared_ptr<const LayeredTable> served;
  std::atomic<bool> is_over = false;
  std::atomic<int> lookups = 0, mixed = 0;
  const auto swap = [&](std::shared_ptr<const LayeredTable> next) {
    std::lock_guard lock(mutex);
    served.swap(next);
  };
  const auto open = [&](int number, const Written& written) {
    const std::string path = directory + "/" + std::to_string(number);
    FILE* file = fopen(path.c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(fwrite(written.bytes.data(), 1, written.bytes.size(), file) == written.bytes.size());
    fclose(file);
    const auto mapped = MappedFile::Open(path);
    REQUIRE(mapped != nullptr);
    remove(path.c_str());
    OpenedTable found = OpenTable(mapped, path, written.layout, number % 2 ? Placement::kPrivate : Placement::kShared,
                                  [](const std::string&) {});
    REQUIRE(found.wrong.empty());
    REQUIRE(found.table != nullptr);
    return found.table;
  };
  const Written whole = Write({{1, 0.0f}, {2, 0.0f}, {3, 5.0f}}, 0);
  const auto base = open(0, whole);
  swap(std::make_shared<LayeredTable>(std::vector{base}));
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      while (!is_over) {
        std::shared_ptr<const LayeredTable> table;
        {
          std::lock_guard lock(mutex);
          table = served;
        }
        const std::int64_t keys[] = {1, 2, 3};
        float found[3];
        const bool is_right = table->Lookup(keys, 3, found).empty() && found[0] == found[1] && found[2] == 5;
        mixed += is_right ? 0 : 1;
        ++lookups;
      }
    });
  }
  for (int version = 1; version <= kVersions; ++version) {
    const auto weight = static_cast<float>(version);
    swap(std::make_shared<LayeredTable>(
        std::vector{open(version, Write({{1, weight}, {2, weight}}, whole.layout.id())), base}));
    for (const int before = lookups; lookups < before + 10;) std::this_thread::yield();
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(mixed == 0);
  rmdir(directory.c_str());
}

TEST_CASE("layered_table_test: what names no parent has no changes") {
  const Written changes = Write({{1, 11.0f}, {2, std::nullopt}}, 5);
  const auto wrong_of = [](ServedLayout layout) {
    const std::string header = EncodeHeader(&layout);
    return ParseServedLayout(header.data(), layout.size()).wrong;
  };
  CHECK(wrong_of(changes.layout).empty());
  ServedLayout layout = changes.layout;
  layout.parent = 0;
  CHECK(wrong_of(layout) == "it has changes of another table, and does not say of which one");
  layout = changes.layout;
  layout.parent_path = "/etc/passwd";
  CHECK(wrong_of(layout) == "it has changes of another table, and no relative path of that one");
  layout.parent_path = "";
  CHECK(wrong_of(layout) == "it has changes of another table, and no relative path of that one");
  layout = changes.layout;
  layout.removed = 0xfffffffful;
  CHECK(wrong_of(layout) == "it has more keys than a table can");
}

}  // namespace
}  // namespace afo
