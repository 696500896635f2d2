#include "afo/core/index.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "afo/core/row_store.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::HashFrom;
using testing::kFirstLine;
using testing::kLastLine;
using testing::KeyOf;
using testing::Random;

// An index and its rows beside a dictionary, from each key to the number of its row.
class Mirrored {
 public:
  void Insert(std::int64_t key) {
    REQUIRE(rows_.Reserve(1));
    const std::size_t before = lines();
    REQUIRE(index_.Reserve(1, rows_));
    growths_ += lines() != before;
    if (index_.size() + 1 > lines() * kLinePlaces * 8 / 10) ++too_full_;
    const std::uint32_t row = rows_.Take();
    rows_.header(row)->key = key;
    index_.Insert(HashOf(key), row);
    model_[key] = row;
  }

  void Remove(std::int64_t key) {
    index_.Remove(HashOf(key), model_.at(key));
    rows_.Free(model_.at(key));
    model_.erase(key);
  }

  std::uint32_t Find(std::int64_t key) const { return index_.Find(key, HashOf(key), rows_); }
  bool Has(std::int64_t key) const { return model_.count(key) == 1; }

  // How many of these keys are found where they are not, or not found where they are; and how often a key was put in
  // where too many were, of more than 0.8 of the places.
  int WrongOf(const std::vector<std::int64_t>& keys) const {
    int wrong = too_full_ + (index_.size() != model_.size());
    for (const std::int64_t key : keys) {
      const auto row = model_.find(key);
      wrong += Find(key) != (row == model_.end() ? kNoRow : row->second);
      const std::uint32_t guess = index_.Guess(HashOf(key));
      wrong += guess != kNoRow && (guess >= rows_.end() || rows_.header(guess)->is_free());
    }
    return wrong;
  }

  // Lines whose places hold other rows than the dictionary's, or whose count is not that of the keys that went past.
  // `exact`: no count was ever at its end.
  int WrongLines(bool exact = true) const {
    std::vector<std::uint32_t> past(lines(), 0);
    std::map<std::uint32_t, std::size_t> line_of;
    int wrong = 0;
    for (std::size_t at = 0; at < lines(); ++at) {
      for (int place = 0; place < kLinePlaces; ++place) {
        if (line(at).tags[place] == 0) continue;
        wrong += !line_of.emplace(line(at).rows[place], at).second;  // a row twice
      }
    }
    wrong += line_of.size() != model_.size();
    for (const auto& [key, row] : model_) {
      const auto there = line_of.find(row);
      if (there == line_of.end()) return wrong + 1;
      const auto count = static_cast<std::uint32_t>(lines());
      for (std::uint32_t at = HomeOf(HashOf(key), count); at != there->second; at = (at + 1) % count) ++past[at];
    }
    for (std::size_t at = 0; at < lines(); ++at) {
      wrong += exact ? line(at).overflow != past[at] : line(at).overflow < (past[at] < 255 ? past[at] : 255);
    }
    return wrong;
  }

  std::size_t lines() const { return index_.bytes() / sizeof(Line); }
  const Line& line(std::size_t at) const { return index_.home(HashFrom(0, 0, kFirstLine, 1))[at]; }
  std::size_t size() const { return model_.size(); }
  int growths() const { return growths_; }
  const Index& index() const { return index_; }
  const RowStore& rows() const { return rows_; }
  const std::unordered_map<std::int64_t, std::uint32_t>& model() const { return model_; }

 private:
  RowStore rows_{RowLayout{1, 1}};
  Index index_;
  std::unordered_map<std::int64_t, std::uint32_t> model_;
  int growths_ = 0;
  int too_full_ = 0;
};

// The n-th of the keys that begin to probe at `home`; tags repeat, so that keys are compared too.
std::int64_t KeyAt(std::uint64_t home, std::uint64_t n) { return KeyOf(HashFrom(n, 0, home, n % 5)); }

TEST_CASE("an index finds what a dictionary does, whatever comes and goes") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    // Few keys, so that an index stays small and its lines full; or many, so that it grows.
    const std::size_t most = std::vector<std::size_t>{9, 19, 38, 100, 600, 2000, 2000, 19}[seed];
    std::vector<std::int64_t> keys = testing::SpecialKeys();
    while (keys.size() < 2 * most) keys.push_back(random.Key());
    if (seed == 7) {  // all begin at the first line or the last
      for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = KeyAt(i % 2 == 0 ? kFirstLine : kLastLine, i);
    }
    Mirrored mirrored;
    int wrong = 0;
    for (int step = 0; step < 6000; ++step) {
      const std::int64_t key = keys[random.Below(keys.size())];
      if (mirrored.Has(key)) {
        mirrored.Remove(key);
      } else if (mirrored.size() < most) {
        mirrored.Insert(key);
      }
      wrong += mirrored.WrongOf({key, keys[random.Below(keys.size())]});
      if (step % 512 == 511) wrong += mirrored.WrongOf(keys) + mirrored.WrongLines();
    }
    CHECK(wrong == 0);
    for (const std::int64_t key : keys) {
      if (mirrored.Has(key)) mirrored.Remove(key);
    }
    CHECK(mirrored.index().size() == 0);
    CHECK(mirrored.WrongOf(keys) == 0);
    CHECK(mirrored.WrongLines() == 0);
  }
}

TEST_CASE("every 64-bit number is a key") {
  Mirrored mirrored;
  const std::vector<std::int64_t> keys = testing::SpecialKeys();
  for (const std::int64_t key : keys) {
    mirrored.Insert(key);
    CHECK(mirrored.WrongOf(keys) == 0);
  }
  for (const std::int64_t key : keys) {
    mirrored.Remove(key);
    CHECK(mirrored.WrongOf(keys) == 0);
  }
}

TEST_CASE("keys whose hash ends in zeros are found, and their places are not taken for free ones") {
  Mirrored mirrored;
  std::vector<std::int64_t> keys;
  for (std::uint64_t n = 0; n < 40; ++n) keys.push_back(KeyOf(HashFrom(n, n, n << 27, n < 30 ? 0 : 1)));
  for (const std::int64_t key : keys) mirrored.Insert(key);
  CHECK(mirrored.WrongOf(keys) == 0);
  CHECK(mirrored.WrongLines() == 0);
  for (std::size_t i = 0; i < keys.size(); i += 2) mirrored.Remove(keys[i]);
  CHECK(mirrored.WrongOf(keys) == 0);
  CHECK(mirrored.WrongLines() == 0);
}

TEST_CASE("keys of one tag and one line are told apart by themselves") {
  Mirrored mirrored;
  std::vector<std::int64_t> keys;
  for (std::uint64_t n = 0; n < 60; ++n) keys.push_back(KeyOf(HashFrom(n, 0, kLastLine, 9)));
  for (std::size_t i = 0; i < 50; ++i) mirrored.Insert(keys[i]);
  CHECK(mirrored.WrongOf(keys) == 0);
  for (std::size_t i = 0; i < 50; i += 3) mirrored.Remove(keys[i]);
  CHECK(mirrored.WrongOf(keys) == 0);
}

TEST_CASE("a search ends where each line has been passed by a key") {
  for (const bool first : {true, false}) {
    Mirrored mirrored;
    const std::uint64_t one = first ? kFirstLine : kLastLine, other = first ? kLastLine : kFirstLine;
    for (std::uint64_t n = 0; n < 13; ++n) mirrored.Insert(KeyAt(one, n));  // the last goes past
    REQUIRE(mirrored.lines() == 2);
    for (std::uint64_t n = 0; n < 6; ++n) mirrored.Remove(KeyAt(one, n));
    for (std::uint64_t n = 0; n < 12; ++n) mirrored.Insert(KeyAt(other, n));  // and so does the last of these
    REQUIRE(mirrored.lines() == 2);
    REQUIRE(mirrored.line(0).overflow > 0);
    REQUIRE(mirrored.line(1).overflow > 0);
    for (std::uint64_t n = 0; n < 40; ++n) {
      CHECK(mirrored.WrongOf({KeyAt(one, n), KeyAt(other, n)}) == 0);
    }
    CHECK(mirrored.WrongLines() == 0);
  }
}

TEST_CASE("keys go past full lines, behind the last to the first, and are found when those empty again") {
  for (const std::uint64_t home : {kFirstLine, std::uint64_t{0x80000000}, kLastLine}) {
    CAPTURE(home);
    Mirrored mirrored;
    std::vector<std::int64_t> keys, others;
    for (std::uint64_t n = 0; n < 100; ++n) keys.push_back(KeyAt(home, n));
    for (std::uint64_t n = 0; n < 60; ++n) others.push_back(KeyOf(HashFrom(n, 1, n * 0x04000000, n)));
    for (std::size_t i = 0; i < 60; ++i) {
      mirrored.Insert(keys[i]);
      mirrored.Insert(others[i]);
    }
    REQUIRE(mirrored.lines() > 10);
    CHECK(mirrored.WrongOf(keys) + mirrored.WrongOf(others) + mirrored.WrongLines() == 0);
    const std::size_t lines = mirrored.lines();
    int wrong = 0;
    // The first ones lie nearest: when they are gone, a search must still go on to the last.
    for (std::size_t i = 0; i < 59; ++i) {
      mirrored.Remove(keys[i]);
      wrong += mirrored.WrongOf(keys) + mirrored.WrongOf(others) + mirrored.WrongLines();
    }
    // New ones take the places that became free.
    for (std::size_t i = 60; i < 100; ++i) {
      mirrored.Insert(keys[i]);
      wrong += mirrored.WrongOf(keys) + mirrored.WrongOf(others) + mirrored.WrongLines();
    }
    CHECK(wrong == 0);
    CHECK(mirrored.lines() == lines);
    for (std::size_t i = 59; i < 100; ++i) mirrored.Remove(keys[i]);
    for (const std::int64_t key : others) mirrored.Remove(key);
    CHECK(mirrored.WrongOf(keys) + mirrored.WrongOf(others) + mirrored.WrongLines() == 0);
  }
}

TEST_CASE("a line that more keys passed than it can count stays passed") {
  Mirrored mirrored;
  std::vector<std::int64_t> keys;
  for (std::uint64_t n = 0; n < 700; ++n) keys.push_back(KeyAt(kLastLine, n));
  for (std::size_t i = 0; i < 600; ++i) mirrored.Insert(keys[i]);
  const std::size_t home = mirrored.lines() - 1;
  CHECK(mirrored.line(home).overflow == 255);
  CHECK(mirrored.WrongOf(keys) == 0);
  CHECK(mirrored.WrongLines(false) == 0);
  // 600 - 12 went past; a count that went on from 255 down would be 0 long before the last of them is gone.
  int wrong = 0;
  for (std::size_t i = 0; i < 590; ++i) {
    mirrored.Remove(keys[i]);
    if (i % 16 == 0 || i > 570) wrong += mirrored.WrongOf(keys) + mirrored.WrongLines(false);
  }
  CHECK(wrong == 0);
  CHECK(mirrored.line(home).overflow == 255);
  for (std::size_t i = 600; i < 700; ++i) mirrored.Insert(keys[i]);
  CHECK(mirrored.WrongOf(keys) == 0);
}

TEST_CASE("255 keys past a line are counted, and uncounted") {
  for (const int past : {254, 255}) {
    Mirrored mirrored;
    for (int n = 0; n < kLinePlaces + past; ++n) mirrored.Insert(KeyAt(kFirstLine, static_cast<std::uint64_t>(n)));
    CHECK(mirrored.line(0).overflow == past);
    for (int n = 0; n < kLinePlaces + past; ++n) mirrored.Remove(KeyAt(kFirstLine, static_cast<std::uint64_t>(n)));
    CHECK(mirrored.line(0).overflow == (past == 255 ? 255 : 0));
    CHECK(mirrored.WrongOf({KeyAt(kFirstLine, 0)}) == 0);
  }
}

TEST_CASE("growth keeps every row's number, drops old counts, and takes no row that is free") {
  Random random(3);
  Mirrored mirrored;
  const std::vector<std::int64_t> keys = random.Keys(6000);
  int wrong = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    mirrored.Insert(keys[i]);  // the dictionary keeps the number that it got now
    if (i % 3 == 2) mirrored.Remove(keys[i - 1]);
    if (mirrored.index().bytes() != bytes) wrong += mirrored.WrongLines();
    bytes = mirrored.index().bytes();
  }
  CHECK(wrong == 0);
  CHECK(mirrored.growths() > 5);
  CHECK(mirrored.WrongOf(keys) == 0);
  CHECK(mirrored.WrongLines() == 0);
}

TEST_CASE("an index that grows while most rows are free holds the others alone") {
  Mirrored mirrored;
  for (std::int64_t key = 0; key < 300; ++key) mirrored.Insert(key);
  for (std::int64_t key = 0; key < 295; ++key) mirrored.Remove(key);
  Index index;  // as big as the keys that are left, which is less than there were
  RowStore none(RowLayout{1, 1});
  REQUIRE(index.Reserve(0, none));
  std::vector<std::int64_t> keys;
  for (const auto& [key, row] : mirrored.model()) {
    index.Insert(HashOf(key), row);
    keys.push_back(key);
  }
  REQUIRE(index.Reserve(1000, mirrored.rows()));
  CHECK(index.size() == 5);
  for (const std::int64_t key : keys) CHECK(index.Find(key, HashOf(key), mirrored.rows()) == mirrored.Find(key));
  for (std::int64_t key = 0; key < 295; ++key) {
    CHECK(index.Find(key, HashOf(key), mirrored.rows()) == kNoRow);
  }
}

TEST_CASE("room that was reserved at once is there, and no line more full than 0.8") {
  for (const std::size_t count : {1u, 9u, 10u, 19u, 20u, 100u, 1000u, 12345u}) {
    CAPTURE(count);
    RowStore rows(RowLayout{1, 1});
    Index index;
    REQUIRE(rows.Reserve(count));
    REQUIRE(index.Reserve(count, rows));
    const std::size_t bytes = index.bytes();
    CHECK(count <= bytes / sizeof(Line) * kLinePlaces * 8 / 10);
    CHECK(bytes < 64 + count * 7);
    Random random(count);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(index.Reserve(1, rows));
      const std::uint32_t row = rows.Take();
      rows.header(row)->key = random.Key();
      index.Insert(HashOf(rows.header(row)->key), row);
    }
    CHECK(index.bytes() == bytes);
    CHECK(index.size() == count);
  }
}

TEST_CASE("an index with more lines than numbers is refused") {
  RowStore rows(RowLayout{1, 1});
  Index index;
  REQUIRE(index.Reserve(5, rows));
  const std::size_t bytes = index.bytes();
  CHECK_FALSE(index.Reserve(std::size_t{1} << 40, rows));
  CHECK(index.bytes() == bytes);
  CHECK(index.Find(1, HashOf(1), rows) == kNoRow);
}

TEST_CASE("a guess is a row of the home line with the key's tag") {
  Mirrored mirrored;
  CHECK(sizeof(Line) == 64);
  for (std::uint64_t n = 0; n < 5; ++n) mirrored.Insert(KeyOf(HashFrom(n, 0, kFirstLine, 10 + n)));
  for (std::uint64_t n = 0; n < 5; ++n) {
    const std::uint64_t hash = HashFrom(n, 0, kFirstLine, 10 + n);
    CHECK(mirrored.index().Guess(hash) == mirrored.model().at(KeyOf(hash)));
    CHECK(mirrored.index().Guess(HashFrom(99, 0, kFirstLine, 10 + n)) == mirrored.model().at(KeyOf(hash)));
  }
  CHECK(mirrored.index().Guess(HashFrom(0, 0, kFirstLine, 99)) == kNoRow);
}

}  // namespace
}  // namespace afo
