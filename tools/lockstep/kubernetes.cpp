// `lockstep kubernetes`: writes the manifests of a job whose pods are its nodes, or checks existing ones.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/net/secret.h"
#include "tools/frame/file_findings.h"
#include "tools/frame/subcommand.h"
#include "tools/kubernetes/kubernetes_check.h"
#include "tools/kubernetes/kubernetes_job.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMostManifestBytes = std::uint64_t{1} << 20;

class Kubernetes : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--image", options_.image, "image that has the program, and lockstep on its PATH");
    app.add_option("--nodes,-N", options_.nodes, "number of pods, or MIN:MAX if pods may be lost and come back")
        ->capture_default_str();
    app.add_option("--nproc-per-node", options_.nproc_per_node, "ranks of a pod; default: 1, or one for each GPU");
    app.add_option("--cpus", options_.cpus, "cores of a pod, as 4 or 500m; default: the cluster's");
    app.add_option("--memory", options_.memory, "memory of a pod, as 8Gi; default: the cluster's");
    app.add_option("--gpus-per-node", options_.gpus_per_node, "GPUs of a pod, one for each of its ranks");
    app.add_option("--volume", options_.volumes,
                   "CLAIM:PATH, as results:/results: a PersistentVolumeClaim, and where pods mount it; can be repeated")
        ->allow_extra_args(false);
    app.add_option("--name", options_.name, "name of the Job, its Service and its Secret; default: the program's");
    app.add_option("--namespace", options_.name_space, "default: kubectl's");
    app.add_option("--secret", options_.secret, "existing Secret, with the key secret; default: a new one is written");
    app.add_option("--port", options_.port, "port of the first pod's store")->capture_default_str();
    app.add_option("--grace-seconds", options_.grace_seconds,
                   "seconds that a pod may take to save and leave when it is asked to stop")
        ->capture_default_str();
    app.add_option("--file,-f", file_, "file to write; default: standard output");
    app.add_option("--check", check_, "check existing manifests instead, and print what is wrong with them");
    app.prefix_command();
    app_ = &app;
    show_examples(app, {"lockstep kubernetes --image lockstep --nodes 2 --nproc-per-node 4 --cpus 4 --memory 8Gi "
                        "--volume results:/results --file job.yaml -- lockstep train --task text-classification "
                        "--model bert-tiny --tokenizer data/reviews-vocab --train-file data/reviews.csv "
                        "--label-column division --resume-from-checkpoint true --output-dir /results/reviews",
                        "kubectl apply -f job.yaml",
                        "lockstep kubernetes --image train:1 --nodes 2:4 --secret my-secret -- ./train",
                        "lockstep kubernetes --check job.yaml"});
  }

  int run(const CommandStreams& streams) override {
    options_.command = app_->remaining();
    if (!options_.command.empty() && options_.command.front() == "--") options_.command.erase(options_.command.begin());
    if (!check_.empty()) return check(streams.out);
    if (options_.image.empty())
      throw UsageError("--image is required", "lockstep kubernetes", "name the image that has the program");
    const std::string text = kubernetes_job(options_, options_.secret.empty() ? make_secret() : "");
    if (file_.empty()) {
      streams.out << text;
      return 0;
    }
    write_file_atomically(file_, text, options_.secret.empty() ? 0600 : 0644);  // a secret is for its owner
    fmt::print(streams.out, "wrote {}; start the job with: kubectl apply -f {}\n", file_, file_);
    return 0;
  }

 private:
  int check(std::ostream& out) const {
    if (!options_.command.empty())
      throw UsageError("--check takes no program", "lockstep kubernetes", "leave the program out");
    return print_findings(out, check_, check_kubernetes_file(read_file_or_pipe(check_, kMostManifestBytes)));
  }

  KubernetesOptions options_;
  std::string file_;
  std::string check_;
  CLI::App* app_ = nullptr;
};

}  // namespace

std::unique_ptr<Subcommand> make_kubernetes() { return std::make_unique<Kubernetes>(); }

}  // namespace lockstep
