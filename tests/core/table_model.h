// A table beside a dictionary that does the same a key at a time: every operation is done to both, and compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "afo/core/bfloat16.h"
#include "afo/core/initializer.h"
#include "afo/core/kernels.h"
#include "afo/core/optimizer.h"
#include "afo/core/table.h"
#include "tests/core/support.h"

namespace afo::testing {

struct Difference : std::logic_error {
  using std::logic_error::logic_error;
};

// What an update is told of the rows of its keys. Whatever it is, the result is the same.
enum class Told { kNothing, kLast, kOthers, kNone, kAnything, kEnd };

class MirroredTable {
 public:
  explicit MirroredTable(const TableOptions& options)
      : table_(options), options_(options), initializer_(options.initializer) {}

  Table& table() { return table_; }
  std::size_t size() const { return model_.size(); }
  bool Has(std::int64_t key) const { return model_.count(key) == 1; }

  void LookupOrInsert(const std::vector<std::int64_t>& keys, bool wants_rows = true) {
    for (const std::int64_t key : keys) {
      if (options_.admission.open()) Entry(key);
      last_row_.try_emplace(key, kNoRow);
    }
    Compare(keys, true, wants_rows);
  }

  void Lookup(const std::vector<std::int64_t>& keys, bool wants_rows = true) { Compare(keys, false, wants_rows); }

  // The keys differ.
  void Apply(const std::vector<std::int64_t>& keys, const std::vector<float>& gradients, Told told, Random* random,
             StepInfo info = {}, const std::uint32_t* counts = nullptr) {
    std::vector<std::uint32_t> rows;
    for (std::size_t i = 0; i < keys.size(); ++i) rows.push_back(RowToTell(told, keys[i], random));
    const RowGradients of{.gradients = gradients.data(),
                          .rows = told == Told::kNothing ? nullptr : rows.data(),
                          .counts = counts};
    const Update update = table_.NextUpdate(info.schedule);
    ForEachShard(keys, [&](const ShardOrder& order, std::int32_t shard) {
      return table_.Apply(order, shard, keys.data(), of, update, info);
    });
    ApplyToModel(keys, gradients, info, counts);
    Check(table_.size() == static_cast<std::int64_t>(model_.size()), "another number of keys after an update");
  }

  void Remove(const std::vector<std::int64_t>& keys) {
    std::int64_t wanted = 0;
    for (const std::int64_t key : keys) wanted += Forget(key);
    Check(table_.Remove(keys) == wanted, "another number removed");
    Check(table_.size() == static_cast<std::int64_t>(model_.size()), "another number of keys after a removal");
  }

  // Rows that are unfit must go, and of the others those that are worth least where a shard has more than its share.
  void Evict(const EvictionOptions& options, std::uint32_t step) {
    const std::int64_t before = table_.size();
    const std::int64_t evicted = table_.Evict(options, step);
    Check(before - table_.size() == evicted, "another number evicted than said");
    std::set<std::int64_t> there;
    for (std::int32_t shard = 0; shard < table_.shards(); ++shard) {
      for (const std::int64_t key : Exported(shard, false).keys) there.insert(key);
    }
    std::vector<std::int64_t> fit, gone;
    for (const auto& [key, row] : model_) {
      (IsFit(row, options, step) ? fit : gone).push_back(key);
    }
    for (const std::int64_t key : gone) Check(there.count(key) == 0, "a key that should have gone");
    const std::int64_t shards = table_.shards();
    const bool full = options.capacity > 0 && static_cast<std::int64_t>(fit.size()) > options.capacity;
    std::vector<std::vector<std::int64_t>> of_shard(static_cast<std::size_t>(shards));
    for (const std::int64_t key : fit) of_shard[static_cast<std::size_t>(ShardNumber(key))].push_back(key);
    for (const auto& keys : of_shard) {
      std::uint64_t least_kept = UINT64_MAX, most_gone = 0;
      std::int64_t kept = 0;
      for (const std::int64_t key : keys) {
        const Row& row = model_.at(key);
        const std::uint64_t worth = std::uint64_t{row.step} << 24 | row.frequency;
        if (there.count(key) == 1) {
          ++kept;
          least_kept = std::min(least_kept, worth);
        } else {
          most_gone = std::max(most_gone, worth);
          gone.push_back(key);
        }
      }
      const auto held = static_cast<std::int64_t>(keys.size());
      const std::int64_t share = (options.capacity + shards - 1) / shards;
      Check(kept == (full ? std::min(held, share) : held), "another number kept in a shard");
      Check(kept == held || most_gone <= least_kept, "a row that was worth more than one that stays");
    }
    for (const std::int64_t key : gone) Forget(key);
    if (options.unused_steps == 0 || step <= options.unused_steps) return;
    for (auto each = candidates_.begin(); each != candidates_.end();) {
      each = each->second.step < step - options.unused_steps ? candidates_.erase(each) : std::next(each);
    }
  }

  // Every key that ever was, present or not; and all that is in the table, slots and headers, too.
  void CompareAll() {
    std::vector<std::int64_t> keys;
    for (const auto& [key, row] : last_row_) keys.push_back(key);
    Lookup(keys);
    std::size_t rows = 0, candidates = 0;
    for (std::int32_t shard = 0; shard < table_.shards(); ++shard) {
      const RowBlock block = Exported(shard, false), waiting = Exported(shard, true);
      for (std::size_t i = 0; i < block.keys.size(); ++i) CompareExported(block, i, shard);
      for (std::size_t i = 0; i < waiting.keys.size(); ++i) CompareCandidate(waiting, i, shard);
      rows += block.keys.size();
      candidates += waiting.keys.size();
    }
    Check(rows == model_.size(), "another number of rows than keys");
    Check(candidates == candidates_.size(), "another number of keys that wait");
  }

 private:
  struct Row {
    std::vector<float> values;  // weights and slots
    std::uint32_t step = 0;
    std::uint32_t frequency = 0;
    std::uint32_t row = kNoRow;  // in the table, once it was said
  };

  struct Candidate {
    std::uint32_t step = 0;
    std::uint32_t frequency = 0;
  };

  static void Check(bool holds, const std::string& words) {
    if (!holds) throw Difference(words);
  }

  std::int32_t ShardNumber(std::int64_t key) const {
    return static_cast<std::int32_t>(ShardOf(HashOf(key), options_.shard_bits));
  }

  template <typename Work>
  void ForEachShard(const std::vector<std::int64_t>& keys, const Work& work) {
    ShardOrder order;
    table_.OrderByShard(keys, &order);
    for (std::int32_t shard = 0; shard < table_.shards(); ++shard) {
      Check(work(order, shard) == Status::kOk, "out of memory");
    }
  }

  std::vector<float> FirstValues(std::int64_t key) const {
    std::vector<float> values(static_cast<std::size_t>(table_.layout().floats));
    initializer_.Fill(key, values.data(), options_.dim);
    if (options_.weights == WeightType::kBfloat16) {
      std::for_each_n(values.begin(), options_.dim, [](float& each) { each = WidenedBfloat16(NearestBfloat16(each)); });
    }
    FillSlots(options_.optimizer, values.data(), values.data() + options_.dim, options_.dim);
    return values;
  }

  std::vector<float> AbsentValues(std::int64_t key) const {
    if (options_.admission.open()) return FirstValues(key);
    return std::vector<float>(static_cast<std::size_t>(options_.dim), options_.admission.default_value);
  }

  // Whether it was there.
  bool Forget(std::int64_t key) {
    const auto entry = model_.find(key);
    if (entry == model_.end()) return false;
    if (entry->second.row != kNoRow) key_of_row_.erase({ShardNumber(key), entry->second.row});
    model_.erase(entry);
    return true;
  }

  bool IsFit(const Row& row, const EvictionOptions& options, std::uint32_t step) const {
    if (options.unused_steps > 0 && step > row.step && step - row.step > options.unused_steps) return false;
    double squares = 0;
    for (std::int32_t i = 0; i < options_.dim; ++i) {
      squares += static_cast<double>(row.values[static_cast<std::size_t>(i)]) * row.values[static_cast<std::size_t>(i)];
    }
    return !(options.l2_weight > 0 && squares < static_cast<double>(options.l2_weight));
  }

  RowBlock Exported(std::int32_t shard, bool candidates) const {
    RowBlock block;
    for (std::optional<std::uint32_t> next = 0; next.has_value();) {
      const auto most = static_cast<std::uint32_t>(block.keys.size()) + 7;
      const ExportRange range{.shard = shard, .first = *next, .most = most};
      auto exported = candidates ? table_.ExportCandidates(range, std::move(block))
                                 : table_.Export(range, std::move(block));
      block = std::move(exported.block);
      next = exported.next;
    }
    return block;
  }

  void CompareCandidate(const RowBlock& block, std::size_t i, std::int32_t shard) const {
    const std::string name = " of the waiting key " + std::to_string(block.keys[i]);
    const auto entry = candidates_.find(block.keys[i]);
    Check(entry != candidates_.end(), "a count" + name);
    Check(ShardNumber(block.keys[i]) == shard, "another shard" + name);
    Check(block.steps[i] == entry->second.step, "another step" + name);
    Check(block.frequencies[i] == entry->second.frequency, "another count" + name);
  }

  // Its gradient does not count, whether this gives it a row or not.
  void CountInModel(std::int64_t key, std::uint32_t count, std::uint32_t step) {
    const AdmissionOptions& admission = options_.admission;
    std::uint32_t seen = count;
    if (admission.remembers()) {
      Candidate& candidate = candidates_[key];
      candidate.step = std::max(candidate.step, step);
      seen = candidate.frequency = std::min(candidate.frequency + count, kMaxFrequency);
      if (seen < admission.min_count) return;
    } else if (!AdmitByChance(admission, key, step, count)) {
      return;
    }
    candidates_.erase(key);
    Row& entry = Entry(key);
    entry.step = step;
    entry.frequency = seen;
  }

  Row& Entry(std::int64_t key) {
    const auto [entry, is_new] = model_.try_emplace(key);
    if (is_new) entry->second.values = FirstValues(key);
    last_row_.try_emplace(key, kNoRow);
    return entry->second;
  }

  void Compare(const std::vector<std::int64_t>& keys, bool inserts, bool wants_rows) {
    const auto dim = static_cast<std::size_t>(options_.dim);
    // One more than asked for, which must stay.
    std::vector<float> values((keys.size() + 1) * dim, -12345.0f);
    std::vector<std::uint32_t> rows(keys.size() + 1, 0xabcdef);
    const LookupOutput to{.values = values.data(), .rows = wants_rows ? rows.data() : nullptr};
    ForEachShard(keys, [&](const ShardOrder& order, std::int32_t shard) {
      if (inserts) return table_.LookupOrInsert(order, shard, keys.data(), to);
      table_.Lookup(order, shard, keys.data(), to);
      return Status::kOk;
    });
    Check(values[keys.size() * dim] == -12345.0f && rows.back() == 0xabcdef, "written behind the last key");
    Check(table_.size() == static_cast<std::int64_t>(model_.size()), "another number of keys after a lookup");
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto entry = model_.find(keys[i]);
      const std::vector<float> wanted = entry == model_.end() ? AbsentValues(keys[i]) : entry->second.values;
      Check(std::memcmp(values.data() + i * dim, wanted.data(), dim * sizeof(float)) == 0,
            "other weights of key " + std::to_string(keys[i]));
      if (wants_rows) CompareRow(keys[i], rows[i], entry == model_.end() ? nullptr : &entry->second);
    }
  }

  // A row keeps its number for as long as its key is there, and is nobody else's.
  void CompareRow(std::int64_t key, std::uint32_t row, Row* entry) {
    const std::string name = " of key " + std::to_string(key);
    if (entry == nullptr) return Check(row == kNoRow, "a row where none is" + name);
    Check(row != kNoRow, "no row" + name);
    if (entry->row == kNoRow) {
      Check(key_of_row_.emplace(std::pair(ShardNumber(key), row), key).second, "somebody else's row" + name);
      entry->row = row;
      last_row_[key] = row;
    }
    Check(entry->row == row, "another row than before" + name);
  }

  std::uint32_t RowToTell(Told told, std::int64_t key, Random* random) const {
    switch (told) {
      case Told::kLast: {  // as an update does, which may come after a removal
        const auto row = last_row_.find(key);
        return row == last_row_.end() ? kNoRow : row->second;
      }
      case Told::kOthers:
        if (last_row_.empty()) return 0;
        return std::next(last_row_.begin(), static_cast<std::ptrdiff_t>(random->Below(last_row_.size())))->second;
      case Told::kNone:
        return kNoRow;
      case Told::kAnything:
        return random->Below(2) == 0 ? static_cast<std::uint32_t>(random->Below(64))
                                     : static_cast<std::uint32_t>(random->Bits());
      default:
        return 0;
    }
  }

  void CompareExported(const RowBlock& block, std::size_t i, std::int32_t shard) const {
    const std::string name = " of key " + std::to_string(block.keys[i]);
    const auto entry = model_.find(block.keys[i]);
    Check(entry != model_.end(), "a row of no key:" + name);
    Check(ShardNumber(block.keys[i]) == shard, "another shard" + name);
    Check(block.steps[i] == entry->second.step, "another step" + name);
    Check(block.frequencies[i] == entry->second.frequency, "another frequency" + name);
    const std::vector<float>& wanted = entry->second.values;
    const float* values = block.values.data() + i * wanted.size();
    Check(std::memcmp(values, wanted.data(), wanted.size() * sizeof(float)) == 0, "other slots" + name);
  }

  void ApplyToModel(const std::vector<std::int64_t>& keys, const std::vector<float>& gradients, const StepInfo& info,
                    const std::uint32_t* counts) {
    const OptimizerOptions& rule = options_.optimizer;
    const Update update = UpdateOf(rule, info.schedule, ++updates_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::uint32_t count = counts == nullptr ? 1 : counts[i];
      if (!options_.admission.open() && !Has(keys[i])) {
        last_row_.try_emplace(keys[i], kNoRow);
        CountInModel(keys[i], count, info.step);
        continue;
      }
      Row& entry = Entry(keys[i]);
      std::uint32_t decays = 0;  // multiples of `decay_steps` that lie behind the last update, up to this one
      for (std::uint32_t step = entry.step; step < info.step; ++step) decays += (step + 1) % rule.decay_steps == 0;
      entry.step = std::max(entry.step, info.step);
      entry.frequency = std::min(entry.frequency + count, kMaxFrequency);
      UpdateRow(keys[i], gradients.data() + i * static_cast<std::size_t>(options_.dim), update, decays, &entry.values);
    }
  }

  void UpdateRow(std::int64_t key, const float* gradient, const Update& update, std::uint32_t decays,
                 std::vector<float>* values) const {
    const auto dim = static_cast<std::size_t>(options_.dim);
    // Weights of either type, and the slots behind room for the wider ones.
    std::vector<float> memory = *values;
    auto* narrow = reinterpret_cast<std::uint16_t*>(memory.data());
    const bool is_narrow = options_.weights == WeightType::kBfloat16;
    for (std::size_t i = 0; is_narrow && i < dim; ++i) narrow[i] = NearestBfloat16((*values)[i]);
    void* row = memory.data();
    const std::uint64_t draw = Mix(static_cast<std::uint64_t>(key) + Mix(update.number));
    KernelsNamed("v3")->of(options_.weights, options_.optimizer.rule)(
        options_.optimizer, update,
        {&row, &gradient, &decays, 1, options_.dim, static_cast<std::int32_t>(dim * sizeof(float)), &draw});
    std::copy(memory.begin() + options_.dim, memory.end(), values->begin() + options_.dim);
    for (std::size_t i = 0; i < dim; ++i) (*values)[i] = is_narrow ? WidenedBfloat16(narrow[i]) : memory[i];
  }

  Table table_;
  const TableOptions options_;
  const Initializer initializer_;
  std::uint64_t updates_ = 0;
  std::unordered_map<std::int64_t, Row> model_;
  std::map<std::int64_t, Candidate> candidates_;
  std::map<std::int64_t, std::uint32_t> last_row_;  // that was said, of each key that ever was
  std::map<std::pair<std::int32_t, std::uint32_t>, std::int64_t> key_of_row_;
};

}  // namespace afo::testing
