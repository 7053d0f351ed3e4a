// `lockstep predict` for images and for the rows of tables.
#include <ATen/ops/softmax.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/idx.h"
#include "lockstep/data/mnist.h"
#include "tools/lockstep/predict/answers.h"
#include "tools/lockstep/predict/label_scores.h"
#include "tools/lockstep/predict/prediction.h"
#include "tools/lockstep/train/table_files.h"
#include "tools/models/array_model.h"

namespace lockstep {
namespace {

using ReadSamples = std::function<at::Tensor(std::int64_t begin, std::int64_t end)>;

void answer_numbered(std::int64_t number, const at::Tensor& scores, const std::vector<std::string>& labels,
                     Answers& answers) {
  const auto best = scores.argmax().item<std::int64_t>();
  const double score = scores[best].item<double>();
  const std::string& label = labels.at(static_cast<std::size_t>(best));
  nlohmann::ordered_json out{{"sample", number}, {"label", label}, {"score", score}};
  out["scores"] = label_scores(labels, scores);
  answers.add(out, fmt::format("{}\t{}\t{:.4f}", number, printable(label), score));
}

void predict_in_batches(Model& model, const char* input, std::int64_t count, const ReadSamples& read,
                        const std::vector<std::string>& labels, const PredictFlags& flags, std::ostream& out) {
  model.eval();
  Answers answers(flags, out);
  if (count == 0) log_warning("{}: there is nothing to predict", flags.file);
  for (std::int64_t begin = 0; begin < count; begin += flags.batch_size) {
    const std::int64_t end = std::min(begin + flags.batch_size, count);
    const at::Tensor scores = at::softmax(model.forward({{input, read(begin, end)}}), -1);
    for (std::int64_t i = begin; i < end; ++i) answer_numbered(i, scores[i - begin], labels, answers);
  }
  answers.finish();
}

// An IDX file of images, in the form that `mnist` returns.
at::Tensor read_images(const std::string& path) {
  const at::Tensor images = read_idx(path);
  if (images.scalar_type() != at::kByte || images.dim() != 3) {
    throw Error("these are not images: three dimensions of bytes were expected", path, "name an idx3-ubyte file");
  }
  return images.unsqueeze(1).to(at::kFloat).div(255);
}

void need_file(const PredictFlags& flags, const char* what) {
  if (!flags.file.empty() && std::filesystem::is_directory(flags.model)) return;
  throw UsageError(flags.file.empty() ? "there is no --file" : "there is no folder " + flags.model, "command line",
                   std::string("give --model, a folder that lockstep train wrote, and --file, ") + what);
}

}  // namespace

void predict_labels_of_images(const PredictFlags& flags, const CommandStreams& streams) {
  need_file(flags, "an IDX file of images or a folder with test images");
  const ArrayModel loaded = load_array_model(flags.model);
  if (!std::filesystem::is_directory(flags.file)) {
    const at::Tensor images = read_images(flags.file);
    predict_in_batches(
        *loaded.model, "images", images.size(0), [&](auto begin, auto end) { return images.slice(0, begin, end); },
        loaded.labels, flags, streams.out);
    return;
  }
  const auto dataset = mnist(flags.file, Split::Test, /*num_classes=*/0);  // labels are ignored
  predict_in_batches(
      *loaded.model, "images", dataset->size(),
      [&](auto begin, auto end) {
        std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
        std::iota(indices.begin(), indices.end(), begin);
        return dataset->get_batch(indices).at("images");
      },
      loaded.labels, flags, streams.out);
}

void predict_labels_of_rows(const PredictFlags& flags, const CommandStreams& streams) {
  need_file(flags, "a table");
  const ArrayModel loaded = load_array_model(flags.model);
  const at::Tensor features = TableEncoding::of_folder(flags.model).read_features(flags.file, flags.table.form());
  predict_in_batches(
      *loaded.model, "features", features.size(0), [&](auto begin, auto end) { return features.slice(0, begin, end); },
      loaded.labels, flags, streams.out);
}

}  // namespace lockstep
