// A table that is only read, of a served model: its rows in one piece of memory as its file has them, and an index.
// served_layout.h has the form that files are written in; this is the one before it, which is still read.
//
//   file   := header | row[count] | CRC-32C of the rows, 4 B
//   header := "AFOROWS1" | type 4 B | dim 4 B | count 8 B | absent float32 | CRC-32C of the 28 B before, 4 B
//   row    := key int64 | int8: scale float32 | weights[dim]
//
// Numbers are little-endian, nothing is padded, keys rise. A weight of int8 is code * scale; one of bfloat16 is the
// upper half of a float32. A key that is not there has `absent` in all places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "afo/core/index.h"
#include "afo/core/memory.h"

namespace afo {

enum class RowType : std::uint32_t { kFloat32, kBfloat16, kInt8 };

constexpr std::size_t kServedHeaderBytes = 32;
constexpr std::size_t kServedTrailerBytes = 4;

struct ServedHeader {
  RowType type = RowType::kFloat32;
  std::int32_t dim = 0;
  std::uint64_t count = 0;
  float absent = 0;

  std::size_t stride() const;
};

struct ParsedServedHeader {
  ServedHeader header;  // where nothing is wrong
  std::string wrong;    // '' where nothing is
};

// What cannot be of a header's numbers, or nothing.
[[nodiscard]] std::string WrongShape(std::uint32_t type, std::uint32_t dim, std::uint64_t count);

// Reads the header of a file of `size` bytes, of which kServedHeaderBytes, or all if there are fewer, are at `bytes`.
[[nodiscard]] ParsedServedHeader ParseServedHeader(const char* bytes, std::uint64_t size);

// float32 [dim] of the bytes of a row as its file has them; of nullptr those of a key that is not there.
void DecodeRow(const ServedHeader& header, const std::uint8_t* row, float* weights);

// Asks for the memory of a row.
void FetchRow(const std::uint8_t* row, std::size_t bytes);

// A file of a table, as it is open in this process: tables that share it have the same `identity`.
struct ServedPart {
  const void* identity;
  std::uint64_t bytes;
};

// The rows of one file, or of one with changes and those that it stands on, wherever they are. Thread-safe.
class ServedRows {
 public:
  virtual ~ServedRows() = default;
  // float32 [count, dim] of any keys. Returns what is wrong, or nothing.
  [[nodiscard]] virtual std::string Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const = 0;
  virtual const ServedHeader& header() const = 0;
  // Of memory.
  virtual std::size_t bytes() const = 0;
  // Its files, the newest changes first.
  virtual std::vector<ServedPart> parts() const = 0;
};

// All rows in memory. Thread-safe once `Build` has found nothing wrong.
class ServedTable : public ServedRows {
 public:
  explicit ServedTable(const ServedHeader& header) : header_(header), stride_(header.stride()) {}

  // Memory for rows and index; false when the system has no more.
  [[nodiscard]] bool Reserve();
  // Where the file's rows go, one after the other.
  char* rows() { return reinterpret_cast<char*>(pages_.data()); }
  std::size_t row_bytes() const { return static_cast<std::size_t>(header_.count) * stride_; }
  // Indexes the rows, whose checksum the file says is `checksum`. Returns what is wrong, or nothing. Once.
  [[nodiscard]] std::string Build(std::uint32_t checksum);

  // Nothing is ever wrong.
  [[nodiscard]] std::string Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const override;
  const ServedHeader& header() const override { return header_; }
  std::size_t bytes() const override { return pages_.populated() + index_.bytes(); }
  std::vector<ServedPart> parts() const override {
    return {{this, kServedHeaderBytes + row_bytes() + kServedTrailerBytes}};
  }
  // Of `Index::Find`.
  std::int64_t key(std::uint32_t row) const {
    std::int64_t key;
    std::memcpy(&key, at(row), sizeof(key));
    return key;
  }

 private:
  const std::uint8_t* at(std::uint32_t row) const { return pages_.data() + row * stride_; }
  ServedHeader header_;
  std::size_t stride_;
  Pages pages_;
  Index index_;
};

}  // namespace afo
