// A served table that is looked up where it lies (served_layout.h has its form): in its mapped file, and once it was
// copied, in memory. A block is checked before its first byte counts, so a damaged one is an error of the lookups that
// need it, and never an answer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "afo/core/memory.h"
#include "afo/core/served_file.h"
#include "afo/core/served_layout.h"
#include "afo/core/served_table.h"

namespace afo {

// A key, and which row of the weights it gets.
struct AskedKey {
  std::int64_t key;
  std::int64_t place;
};

// Thread-safe, also while it is copied; copied or checked by one thread.
class IndexedTable : public ServedRows {
 public:
  // `name`: of the file, which lookups name where something is wrong.
  IndexedTable(const ServedLayout& layout, std::string name);

  // Reads the checksums of the blocks. Returns what is wrong, or nothing. First, and once.
  [[nodiscard]] std::string ReadSums(const ReadAt& read);
  // Where the file lies in memory, from its first byte; none of it is read now. It stays as long as the table.
  void Map(const std::uint8_t* file) { data_.store(file, std::memory_order_release); }
  // Reads all blocks into memory of the process, where lookups go once they are there. Ends early where `is_over` says
  // so. Returns what is wrong, or nothing.
  [[nodiscard]] std::string Copy(const ReadAt& read, const std::function<bool()>& is_over);
  // Checks all blocks where they lie, bytes [begin, end) of the file at a time after `prepare` of them. As `Copy`
  // otherwise.
  [[nodiscard]] std::string CheckAll(const std::function<void(std::size_t begin, std::size_t end)>& prepare,
                                     const std::function<bool()>& is_over);

  [[nodiscard]] std::string Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const override;
  // Answers the keys that it has, or that it says are removed, which get `absent`; the others stay in `asked`, in their
  // order. Returns what is wrong, or nothing.
  [[nodiscard]] std::string Answer(std::vector<AskedKey>* asked, float absent, float* weights) const;
  const ServedHeader& header() const override { return layout_.header; }
  std::size_t bytes() const override { return populated_.load(std::memory_order_relaxed) + sums_.size() * 4; }
  std::vector<ServedPart> parts() const override { return {{this, layout_.size()}}; }
  // Whether no block is left to check.
  bool is_whole() const { return is_whole_.load(std::memory_order_acquire); }

 private:
  class View;
  // Bytes of the file.
  struct Block {
    std::size_t begin, end;
  };
  Block block(std::size_t number) const;
  // Whether the bytes of a block are those that were written.
  bool HasSum(const std::uint8_t* data, std::size_t number) const;
  // Whether a block is as it was written; remembers those that are.
  bool IsGood(const std::uint8_t* data, std::size_t number) const;
  std::string Damaged(std::size_t number) const;
  // Calls `take(i, row)` for each key: the row, nullptr where it is not there, or kRemoved. `key_of(i)` are the keys.
  template <bool kWhole, typename KeyOf, typename Take>
  std::string FindIn(const std::uint8_t* data, std::int64_t count, const KeyOf& key_of, const Take& take) const;
  template <typename KeyOf, typename Take>
  std::string Find(std::int64_t count, const KeyOf& key_of, const Take& take) const;

  const ServedLayout layout_;
  const std::string name_;
  const std::size_t stride_;
  const PackedShape shape_;
  // Bytes of the file, and the page of the first block.
  const std::size_t rows_at_, lines_at_, sums_at_, first_page_;
  std::vector<std::uint32_t> sums_;
  // A bit for each block that was checked.
  std::unique_ptr<std::atomic<std::uint64_t>[]> checked_;
  // The file, mapped or in `pages_`, where nothing is before the rows.
  std::atomic<const std::uint8_t*> data_ = nullptr;
  std::atomic<bool> is_whole_ = false;
  std::atomic<std::size_t> populated_ = 0;
  Pages pages_;
};

}  // namespace afo
