#include "afo/core/mapped_tables.h"

#include <map>
#include <mutex>
#include <utility>

#include "afo/core/background.h"

namespace afo {
namespace {

// Smaller ones have no huge pages, and are read within a few milliseconds.
constexpr std::uint64_t kCopiedAtOnce = 4u << 20;

struct Opened {
  std::shared_ptr<MappedFile> file;  // first: the table goes before it
  IndexedTable table;
};

using Key = std::pair<std::pair<MappedFile::Identity, std::uint64_t>, Placement>;

struct Registry {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<Opened>> tables;
};

// Never destroyed: tables may outlive what a process destroys at its end.
Registry& TheRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

void Finish(const std::weak_ptr<Opened>& wanted, Placement placement,
            const std::function<void(const std::string&)>& report) {
  const std::shared_ptr<Opened> opened = wanted.lock();
  if (opened == nullptr) return;
  const auto is_over = [&] { return opened.use_count() == 1; };
  MappedFile& file = *opened->file;
  std::string wrong;
  if (placement == Placement::kPrivate) {
    wrong = opened->table.Copy([&](auto... args) { return file.Read(args...); }, is_over);
    // Lookups that have begun may touch them once more.
    if (opened->table.is_whole()) file.Forget();
  } else {
    const auto populate = [&](std::size_t begin, std::size_t end) { file.Populate(begin, end - begin); };
    wrong = opened->table.CheckAll(populate, is_over);
  }
  if (!wrong.empty()) report(wrong);
}

OpenedTable OpenNew(const std::shared_ptr<Opened>& opened, Placement placement,
                    std::function<void(const std::string&)> report) {
  MappedFile& file = *opened->file;
  const auto read = [&](auto... args) { return file.Read(args...); };
  if (std::string wrong = opened->table.ReadSums(read); !wrong.empty()) return {.table = nullptr, .wrong = wrong};
  const std::shared_ptr<const IndexedTable> table(opened, &opened->table);
  if (placement == Placement::kPrivate && file.size() <= kCopiedAtOnce) {
    std::string wrong = opened->table.Copy(read, [] { return false; });
    return {.table = wrong.empty() ? table : nullptr, .wrong = wrong};
  }
  const std::uint8_t* data = file.Map();
  if (data == nullptr) return {};
  opened->table.Map(data);
  RunInBackground([waiting = std::weak_ptr(opened), placement, report = std::move(report)] {
    Finish(waiting, placement, report);
  });
  return {.table = table, .wrong = ""};
}

}  // namespace

OpenedTable OpenTable(const std::shared_ptr<MappedFile>& file, const std::string& path, const ServedLayout& layout,
                      Placement placement, std::function<void(const std::string&)> report) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  std::erase_if(registry.tables, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<Opened>& known = registry.tables[{{file->identity(), layout.id()}, placement}];
  if (const auto there = known.lock(); there != nullptr) return {.table = {there, &there->table}, .wrong = ""};
  const std::shared_ptr<Opened> opened(new Opened{.file = file, .table = IndexedTable(layout, path)});
  OpenedTable found = OpenNew(opened, placement, std::move(report));
  if (found.table != nullptr) known = opened;
  return found;
}

}  // namespace afo
