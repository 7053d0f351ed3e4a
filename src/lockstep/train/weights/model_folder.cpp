#include "lockstep/train/weights/model_folder.h"

#include <filesystem>

#include "lockstep/base/files/create_folders.h"

namespace lockstep {

ModelFolder::ModelFolder(TrainableModel& model, const std::string& folder) : folder_(folder) {
  create_folders(folder);
  for (const auto& [name, bytes] : model.files()) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;  // "1_Pooling/config.json" among them
    create_folders(path.parent_path());
    files_.push_back(std::make_unique<AtomicFile>(path));
    files_.back()->write(bytes);
  }
}

void ModelFolder::commit() {
  for (const auto& file : files_) file->commit();
}

}  // namespace lockstep
