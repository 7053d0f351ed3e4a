#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// Names of the datasets that `download_dataset` knows: "mnist", "fashion-mnist".
std::vector<std::string> downloadable_datasets();

/// Downloads the four gzip files of MNIST, or of a dataset in its format, into `folder`, which is created if it does
/// not exist; `mnist(folder, split)` reads them. Each file is fetched completely, compared with the SHA-256 of the
/// original, and only then written, completely or not at all. A correct file that already exists is kept.
/// @param mirror  the address of a folder with the files, used instead of the known ones; empty: the known ones
/// @param report  called with one line for each file, when it is done
/// @throws Error  if the dataset is not known; if no mirror provides a file, with the reason of each; if a file cannot
/// be written
void download_dataset(const std::string& name, const std::string& folder, const std::string& mirror,
                      const std::function<void(const std::string&)>& report);

}  // namespace lockstep
