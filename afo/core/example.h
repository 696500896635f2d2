// Serialized `tf.Example` messages, decoded straight into columns.
//
//   Example  { Features features = 1; }
//   Features { map<string, Feature> feature = 1; }
//   Feature  { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
//   each list { repeated ... value = 1; }, numbers packed or one by one
//
// Whoever wrote the bytes is not trusted: no length is believed beyond the bytes that are there. Features that no column
// names are skipped by their length, whatever they hold. Of a feature that is there twice the last counts, as in
// protobuf, but the others must fit too; a feature with two lists, which protobuf would join, is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "afo/core/feature_list.h"
#include "afo/core/known_feature.h"

namespace afo {

// What of each record goes into a column [records, width]: std::string_view (kBytes), float or std::int64_t.
struct ExampleColumn {
  std::string name;
  ListKind kind = ListKind::kInt64;
  std::int64_t width = 1;
  // A record may hold any number of values: cut off at `width`, filled up. Else it holds `width` or lacks the feature.
  bool any_length = false;
  // A record that lacks it is refused.
  bool required = false;
  // What stands for absent values: `width` of them, of the column's type.
  const void* fill = nullptr;
};

// The columns of a block of records, each name once.
class ExampleColumns {
 public:
  explicit ExampleColumns(std::vector<ExampleColumn> columns);
  ExampleColumns(const ExampleColumns&) = delete;  // the names are referred to

  const std::vector<ExampleColumn>& all() const { return columns_; }
  // The column of a feature, -1 if there is none.
  int Find(std::string_view name) const;

 private:
  std::vector<ExampleColumn> columns_;
  std::unordered_map<std::string_view, int> by_name_;
};

// Decodes records one after the other; for each thread its own. It remembers which feature came behind which, since
// records of a file are mostly of one form: a name is compared with the one expected and rarely looked up.
class ExampleDecoder {
 public:
  // `outputs`: where each column lies, one a column. They must outlive what is decoded into them, `columns` the decoder.
  ExampleDecoder(const ExampleColumns& columns, const std::vector<void*>& outputs);

  // Goes on in other outputs, rows from 0 again, with what it knows of the records' form.
  void Restart(const std::vector<void*>& outputs);

  // Whether it is of use for other records than those since its start or restart, which strangers may have written: they
  // taught it few names that nobody reads, and had their features in the order that it knew.
  bool IsOfUse() const { return unread_ <= kMostUnread && strayed_ <= rows_; }

  // Writes row `row` of all columns; strings point into `record`. Returns what is wrong with the record, '' if nothing
  // is; its row may hold anything then. Rows must ascend.
  std::string Decode(std::string_view record, std::int64_t row);

 private:
  bool DecodeFeatures(std::string_view bytes);
  // Entries at the start of `rest` in the form that nearly every encoder gives short ones: the features that are expected,
  // no length above 127, name before value, values packed. Returns their bytes; 0: of another form, not decoded.
  std::size_t DecodeUsual(std::string_view rest);
  bool DecodeEntry(std::string_view entry);
  bool DecodeFeature(int column, std::string_view feature);
  bool DecodeList(int column, std::string_view list);
  // Whether this row has a column; the last word counts.
  void Note(int column, bool is_there);
  // Where the values of this row go.
  ListPlace PlaceOf(int column) const;
  int ColumnOf(std::string_view name);
  bool Refuse(int column, const std::string& words);

  // A lookup walks through as many names at most, however these were chosen.
  static constexpr std::size_t kMostUnread = 64;

  const ExampleColumns& columns_;
  const std::vector<void*>* outputs_;
  std::vector<KnownFeature> known_;                     // in the order in which they were first seen
  std::unordered_map<std::string, std::size_t> place_;  // of a name in `known_`, which refers to it
  std::size_t unread_ = 0;          // names in `known_` that no column has
  std::size_t rows_ = 0;            // records since the restart
  std::size_t strayed_ = 0;         // features since then that did not come where they were expected
  std::size_t expected_ = 0;        // the place that is likely to come next
  std::vector<std::int64_t> seen_;  // the last row that had the column, -1: none
  std::size_t found_ = 0;           // columns that this row has
  std::int64_t row_ = 0;
  std::string wrong_;
};

}  // namespace afo
