#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// Names of the datasets that `download_dataset` knows: "mnist", "fashion-mnist".
std::vector<std::string> downloadable_datasets();

/// Downloads the four gzip files of MNIST, or of a dataset in its form, into `folder`, which is made if it is not
/// there; `mnist(folder, split)` reads them. Each file is fetched whole, compared with the SHA-256 of the original, and
/// only then written, whole or not at all. A file that is already there and right is kept.
/// @param mirror  the address of a folder with the files, asked instead of the known ones; empty: those
/// @param report  told one line for each file, when it is done
/// @throws Error  if no such dataset is known; if no mirror gives a file, with the reason of each; if it cannot be
/// written
void download_dataset(const std::string& name, const std::string& folder, const std::string& mirror,
                      const std::function<void(const std::string&)>& report);

}  // namespace lockstep
