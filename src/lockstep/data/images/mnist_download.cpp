#include "lockstep/data/images/mnist_download.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/hub/fetch_url.h"

namespace lockstep {
namespace {

struct RemoteFile {
  const char* name;
  std::size_t bytes;
  const char* sha256;
};

struct RemoteDataset {
  const char* name;
  std::vector<const char*> mirrors;
  std::array<RemoteFile, 4> files;
};

const std::vector<RemoteDataset>& datasets() {
  static const std::vector<RemoteDataset> known{
      {"mnist",
       {"https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"},
       {{{"train-images-idx3-ubyte.gz", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
         {"train-labels-idx1-ubyte.gz", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
         {"t10k-images-idx3-ubyte.gz", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
         {"t10k-labels-idx1-ubyte.gz", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}}},
      {"fashion-mnist",
       {"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"},
       {{{"train-images-idx3-ubyte.gz", 26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
         {"train-labels-idx1-ubyte.gz", 29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
         {"t10k-images-idx3-ubyte.gz", 4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
         {"t10k-labels-idx1-ubyte.gz", 5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}}},
  };
  return known;
}

const RemoteDataset& find_dataset(const std::string& name) {
  for (const RemoteDataset& dataset : datasets()) {
    if (name == dataset.name) return dataset;
  }
  throw Error(fmt::format("there is no dataset \"{}\" to download", name), "download_dataset",
              fmt::format("ask for one of: {}", fmt::join(downloadable_datasets(), ", ")));
}

bool is_there(const std::string& path, const RemoteFile& file) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const FileBytes bytes = FileBytes::open_raw(path);
  return bytes.view().size() == file.bytes && sha256_hex(bytes.view()) == file.sha256;
}

// The file's bytes from `mirror`, checked.
std::string fetch(const std::string& mirror, const RemoteFile& file) {
  constexpr std::chrono::minutes kLongest{10};
  const std::string url = mirror + "/" + file.name;
  std::string content = fetch_url(url, file.bytes, Deadline::after(kLongest));
  const std::string sum = sha256_hex(content);
  if (sum == file.sha256) return content;
  throw Error(fmt::format("{} bytes with SHA-256 {} arrived, but {} bytes with {} were expected", content.size(), sum,
                          file.bytes, file.sha256),
              url, "try another mirror");
}

std::string fetch_from_any(const std::vector<std::string>& mirrors, const RemoteFile& file, const std::string& name) {
  std::string reasons;
  for (const std::string& mirror : mirrors) {
    try {
      return fetch(mirror, file);
    } catch (const Error& error) {
      reasons += fmt::format("\n    {}: {}", error.where(), error.happened());
    }
  }
  throw Error(fmt::format("{} could not be downloaded", file.name), fmt::format("dataset {}{}", name, reasons),
              "check that curl is installed and this machine reaches the network (https_proxy), give a mirror, or use "
              "`lockstep data digits`, which generates digits without a network");
}

}  // namespace

std::vector<std::string> downloadable_datasets() {
  std::vector<std::string> names;
  for (const RemoteDataset& dataset : datasets()) names.emplace_back(dataset.name);
  return names;
}

void download_dataset(const std::string& name, const std::string& folder, const std::string& mirror,
                      const std::function<void(const std::string&)>& report) {
  const RemoteDataset& dataset = find_dataset(name);
  std::vector<std::string> mirrors(dataset.mirrors.begin(), dataset.mirrors.end());
  if (!mirror.empty()) mirrors = {mirror};
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(fmt::format("cannot make the folder {}: {}", folder, failed.message()), folder,
                "give a folder that you may write to");
  }
  for (const RemoteFile& file : dataset.files) {
    const std::string path = folder + "/" + file.name;
    const bool kept = is_there(path, file);
    if (!kept) write_file_atomically(path, fetch_from_any(mirrors, file, name));
    report(
        fmt::format("{}: {}, {} bytes, SHA-256 as expected", path, kept ? "already there" : "downloaded", file.bytes));
  }
}

}  // namespace lockstep
