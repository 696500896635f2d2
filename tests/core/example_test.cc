#include "afo/core/example.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/core/example_writer.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::BytesList;
using testing::Entry;
using testing::FloatList;
using testing::IntList;
using testing::Record;
using testing::Sized;

constexpr std::int64_t kRows = 3;

// An id, a price, a word, a list of ids and a label.
struct Click {
  std::int64_t no_id = 7;
  float no_price = 0.5f;
  std::string_view no_word = "none";
  std::vector<std::int64_t> no_list = {-1, -2, -3};
  std::vector<std::int64_t> ids, list, labels;
  std::vector<float> prices;
  std::vector<std::string_view> words;
  ExampleColumns columns;
  std::vector<void*> outputs;
  ExampleDecoder decoder;

  Click()
      : ids(kRows), list(3 * kRows), labels(kRows), prices(kRows), words(kRows),
        columns({{"id", ListKind::kInt64, 1, false, false, &no_id},
                 {"price", ListKind::kFloat, 1, false, false, &no_price},
                 {"word", ListKind::kBytes, 1, false, false, &no_word},
                 {"list", ListKind::kInt64, 3, true, false, no_list.data()},
                 {"y", ListKind::kInt64, 1, false, true, &no_id}}),
        outputs{ids.data(), prices.data(), words.data(), list.data(), labels.data()},
        decoder(columns, outputs) {}

  std::vector<std::int64_t> ListOf(int row) const { return {list.begin() + 3 * row, list.begin() + 3 * row + 3}; }
};

const std::string kLabel = Entry("y", IntList({1}));

TEST_CASE("a record becomes a row, whatever was decoded before it") {
  Click click;
  const std::string record = Record(Entry("id", IntList({-5})) + Entry("unread", FloatList({1, 2})) +
                                    Entry("list", IntList({4, 300})) + Entry("price", FloatList({2.5f})) +
                                    Entry("word", BytesList({"Ulm"})) + kLabel);
  for (int row = 0; row < kRows; ++row) {
    REQUIRE(click.decoder.Decode(record, row) == "");
    CHECK(click.ids[row] == -5);
    CHECK(click.prices[row] == 2.5f);
    CHECK(click.words[row] == "Ulm");
    CHECK(click.ListOf(row) == std::vector<std::int64_t>{4, 300, -3});
    CHECK(click.labels[row] == 1);
  }
}

TEST_CASE("what a record lacks is filled up, and what it must have is asked for") {
  Click click;
  REQUIRE(click.decoder.Decode(Record(kLabel), 0) == "");
  CHECK(click.ids[0] == 7);
  CHECK(click.prices[0] == 0.5f);
  CHECK(click.words[0] == "none");
  CHECK(click.ListOf(0) == click.no_list);
  CHECK(click.decoder.Decode("", 1) == "feature `y` is not there");
  // A feature without a list is as absent as one that is not there.
  CHECK(click.decoder.Decode(Record(Entry("y", "")), 2) == "feature `y` is not there");
}

TEST_CASE("lists are cut off where the column ends") {
  Click click;
  REQUIRE(click.decoder.Decode(Record(kLabel + Entry("list", IntList({1, 2, 3, 4, 5}))), 0) == "");
  CHECK(click.ListOf(0) == std::vector<std::int64_t>{1, 2, 3});
  REQUIRE(click.decoder.Decode(Record(kLabel + Entry("list", IntList({1, 2, 3, 4}, false))), 1) == "");
  CHECK(click.ListOf(1) == std::vector<std::int64_t>{1, 2, 3});
  CHECK(click.ListOf(0) == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("every number of 64 bits, packed and one by one") {
  for (const std::int64_t value : testing::SpecialKeys()) {
    Click click;
    const std::string packed = Record(kLabel + Entry("id", IntList({value})) + Entry("price", FloatList({1})));
    const std::string single = Record(kLabel + Entry("id", IntList({value}, false)));
    REQUIRE(click.decoder.Decode(packed, 0) == "");
    REQUIRE(click.decoder.Decode(packed, 1) == "");
    REQUIRE(click.decoder.Decode(single, 2) == "");
    CHECK(click.ids == std::vector<std::int64_t>{value, value, value});
  }
}

TEST_CASE("a varint may be longer than it need be") {
  Click click;
  const std::string record = Record(kLabel + Entry("id", Sized(3, Sized(1, std::string("\x85\x80\x00", 3)))) +
                                    Entry("price", FloatList({1})));
  REQUIRE(click.decoder.Decode(record, 0) == "");
  REQUIRE(click.decoder.Decode(record, 1) == "");
  CHECK(click.ids[0] == 5);
  CHECK(click.ids[1] == 5);
}

TEST_CASE("a record that does not fit says why") {
  Click click;
  const auto words = [&](const std::string& entries) { return click.decoder.Decode(Record(kLabel + entries), 0); };
  CHECK(words(Entry("id", IntList({1, 2}))) == "feature `id` holds 2 values where 1 is read");
  CHECK(words(Entry("id", IntList({}))) == "feature `id` holds 0 values where 1 is read");
  CHECK(words(Entry("id", FloatList({1}))) == "feature `id` holds float values where int64 values are read");
  CHECK(words(Entry("word", BytesList({"a", "b"}))) == "feature `word` holds 2 values where 1 is read");
  CHECK(words(Entry("id", IntList({1}) + IntList({2}))) == "feature `id` has two lists");
}

TEST_CASE("of a feature that is there twice the last counts") {
  Click click;
  const std::string one = Entry("id", IntList({1})), two = Entry("id", IntList({2}));
  REQUIRE(click.decoder.Decode(Record(kLabel + one + two), 0) == "");
  REQUIRE(click.decoder.Decode(Record(kLabel + two + one), 1) == "");
  REQUIRE(click.decoder.Decode(Record(kLabel + one + Entry("id", "")), 2) == "");
  CHECK(click.ids == std::vector<std::int64_t>{2, 1, 7});
}

TEST_CASE("no length is believed beyond the bytes that are there") {
  Click click;
  const std::string record = Record(Entry("id", IntList({300})) + kLabel + Entry("price", FloatList({2.5f})));
  for (std::size_t size = 1; size < record.size(); ++size) {
    // On the heap and of this size, so that AddressSanitizer sees who reads behind its end.
    const std::vector<char> cut(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(click.decoder.Decode({cut.data(), cut.size()}, 0) != "");
  }
}

TEST_CASE("names of every length that begin alike are told apart") {
  const std::string letters = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop";
  const std::int64_t none = -1;
  std::vector<ExampleColumn> wanted;
  for (std::size_t size = 1; size <= letters.size(); ++size) {
    wanted.push_back({letters.substr(0, size), ListKind::kInt64, 1, false, false, &none});
  }
  const ExampleColumns columns(wanted);
  std::vector<std::vector<std::int64_t>> found(wanted.size(), std::vector<std::int64_t>(3));
  std::vector<void*> outputs;
  for (auto& each : found) outputs.push_back(each.data());
  ExampleDecoder decoder(columns, outputs);
  // The second record is as expected; the third has each name with its last letter changed, which nobody reads.
  for (std::int64_t row = 0; row < 3; ++row) {
    std::string entries;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::string name = wanted[i].name;
      if (row == 2) name.back() = 'X';
      entries += Entry(name, IntList({100 + static_cast<std::int64_t>(i)}));
    }
    REQUIRE(decoder.Decode(Record(entries), row) == "");
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      CHECK(found[i][row] == (row == 2 ? none : 100 + static_cast<std::int64_t>(i)));
    }
  }
}

TEST_CASE("a decoder goes on in other outputs, and no row of the last ones counts") {
  const std::string record = Record(Entry("id", IntList({8})) + kLabel);
  Click first, other;
  REQUIRE(first.decoder.Decode(record, 0) == "");
  CHECK(first.decoder.IsOfUse());
  first.decoder.Restart(other.outputs);
  REQUIRE(first.decoder.Decode(Record(kLabel), 0) == "");
  CHECK(other.ids[0] == other.no_id);
  CHECK(first.ids[0] == 8);
  REQUIRE(first.decoder.Decode(record, 1) == "");
  CHECK(other.ids[1] == 8);
  CHECK(first.decoder.IsOfUse());
}

TEST_CASE("a decoder is of no use after records in another order, or with many names that nobody reads") {
  const std::string id = Entry("id", IntList({8})), price = Entry("price", FloatList({2.5f}));
  Click click;
  REQUIRE(click.decoder.Decode(Record(price + id + kLabel), 0) == "");
  CHECK(click.decoder.IsOfUse());
  click.decoder.Restart(click.outputs);
  REQUIRE(click.decoder.Decode(Record(kLabel + id + price), 0) == "");
  CHECK(!click.decoder.IsOfUse());
  Click taught;
  std::string entries = id + kLabel;
  for (int i = 0; i < 64; ++i) entries += Entry("f" + std::to_string(i), IntList({1}));
  REQUIRE(taught.decoder.Decode(Record(entries), 0) == "");
  CHECK(taught.decoder.IsOfUse());
  REQUIRE(taught.decoder.Decode(Record(entries + Entry("f64", IntList({1}))), 1) == "");
  CHECK(!taught.decoder.IsOfUse());
}

TEST_CASE("a decoder remembers no name that is too long for the usual form") {
  std::string entries = Entry("id", IntList({8})) + kLabel;
  for (int i = 0; i < 65; ++i) entries += Entry("f" + std::to_string(i) + std::string(128, 'x'), IntList({1}));
  Click click;
  REQUIRE(click.decoder.Decode(Record(entries), 0) == "");
  CHECK(click.ids[0] == 8);
  CHECK(click.decoder.IsOfUse());
}

TEST_CASE("of an entry with two names the last counts, whatever a decoder knows") {
  const auto part = [](char tag, const std::string& bytes) {
    return std::string{tag, static_cast<char>(bytes.size())} + bytes;
  };
  const std::string value = Entry("id", IntList({8})).substr(2 + 2 + 2);
  const std::string twice = part('\x0a', part('\x0a', "junk") + part('\x0a', "id") + value);
  for (const bool knows : {false, true}) {
    Click click;
    if (knows) REQUIRE(click.decoder.Decode(Record(Entry("junk", IntList({1})) + kLabel), 0) == "");
    REQUIRE(click.decoder.Decode(Record(twice + kLabel), 1) == "");
    CHECK(click.ids[1] == 8);
  }
}

TEST_CASE("thousands of features in changing order are read by their names") {
  testing::Random random(3);
  Click click;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> entries;
    for (int i = 0; i < 300; ++i) {
      const std::string name = "f" + std::to_string(random.Below(1000));
      entries.push_back(Entry(name, random.Below(2) ? IntList({1}) : BytesList({name})));
    }
    entries[0] = Entry("id", IntList({round}));
    entries[1] = kLabel;
    for (std::size_t i = entries.size(); i > 1; --i) std::swap(entries[i - 1], entries[random.Below(i)]);
    std::string all;
    for (const std::string& entry : entries) all += entry;
    REQUIRE(click.decoder.Decode(Record(all), round % kRows) == "");
    CHECK(click.ids[round % kRows] == round);
    CHECK(click.prices[round % kRows] == 0.5f);
  }
}

}  // namespace
}  // namespace afo
