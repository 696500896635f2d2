#include "afo/serving/operations.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorflow/c/c_api.h"

namespace afo {
namespace {

// Within a minor version TensorFlow's binary interface holds.
std::string FileName() {
  const std::string version = TF_Version();
  return absl::StrCat("_afo_ops.tensorflow-", version.substr(0, version.rfind('.')), ".so");
}

// Of this library's file; "" if it is not known. (std::filesystem asks for a newer libstdc++ than TensorFlow does.)
std::string OwnDirectory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&FileName), &info) == 0 || info.dli_fname == nullptr) return "";
  char* resolved = realpath(info.dli_fname, nullptr);
  if (resolved == nullptr) return "";
  const std::string path = resolved;
  std::free(resolved);
  return path.substr(0, path.rfind('/'));
}

bool HasProcessor() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

absl::Status LoadFile(const std::string& path) {
  TF_Status* status = TF_NewStatus();
  TF_LoadLibrary(path.c_str(), status);  // it stays for as long as the process does
  const std::string wrong = TF_GetCode(status) == TF_OK ? "" : TF_Message(status);
  TF_DeleteStatus(status);
  return wrong.empty() ? absl::OkStatus() : absl::InternalError(absl::StrCat("cannot load ", path, ": ", wrong));
}

absl::Status Load() {
  if (!HasProcessor()) {
    return absl::UnimplementedError("afo needs a processor of x86-64-v3 (Haswell of 2013, Zen of 2017, or later)");
  }
  const std::string own = OwnDirectory(), beside = own.substr(0, own.rfind('/')) + "/ops";
  for (const std::string& directory : {own, beside}) {
    const std::string path = directory + "/" + FileName();
    if (access(path.c_str(), R_OK) == 0) return LoadFile(path);
  }
  return absl::NotFoundError(absl::StrCat(FileName(), " is neither in ", own, " nor in ", beside));
}

}  // namespace

absl::Status LoadOperations() {
  static const absl::Status loaded = Load();
  return loaded;
}

}  // namespace afo
