#include "tools/kubernetes/kubernetes_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "tools/slurm/job_launcher.h"

namespace lockstep {
namespace {

// A host's name has at most 63 characters, and a pod's ends with a hyphen and its index.
constexpr std::size_t kLongestJobName = 52;

// A string of JSON is a double-quoted string of YAML.
std::string yaml_string(const std::string& text) { return nlohmann::json(text).dump(); }

bool matches_wholly(const std::string& text, const char* pattern) {
  return std::regex_match(text, std::regex(pattern));
}

void require_manifest_value(bool holds, const std::string& flag, const std::string& value, const std::string& fix) {
  if (!holds) throw UsageError(fmt::format("{} is \"{}\"", flag, printable(value)), "lockstep kubernetes", fix);
}

bool is_kubernetes_name(const std::string& text) {
  return text.size() <= kLongestJobName && matches_wholly(text, "[a-z]([-a-z0-9]*[a-z0-9])?");
}

// The program's name with the characters that Kubernetes allows: "ddp-mnist" for "./ddp_mnist".
std::string name_of_program(const std::vector<std::string>& command) {
  std::string name;
  for (const char c : std::filesystem::path(command.front()).filename().string().substr(0, kLongestJobName)) {
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    name += std::isalnum(static_cast<unsigned char>(lower)) != 0 ? lower : '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return is_kubernetes_name(name) ? name : "lockstep";
}

// What the pods are, after the flags were checked.
struct PodJob {
  std::string name;
  std::string secret;
  int pods = 1;
  bool is_elastic = false;
  int nproc_per_node = 1;
  std::vector<std::string> command;
};

int pods_of(const std::string& nodes) {
  std::smatch parts;
  const bool is_range = std::regex_match(nodes, parts, std::regex("([1-9][0-9]{0,4})(?::([1-9][0-9]{0,4}))?"));
  require_manifest_value(is_range, "--nodes", nodes,
                         "write a number of pods, or MIN:MAX if pods may be lost and come back");
  const int least = std::stoi(parts[1]);
  const int most = parts[2].matched ? std::stoi(parts[2]) : least;
  require_manifest_value(least <= most, "--nodes", nodes, "write the smaller number first");
  return most;
}

void check_volume(const std::string& volume) {
  const std::size_t colon = volume.find(':');
  const bool is_pair = colon != std::string::npos && is_kubernetes_name(volume.substr(0, colon)) &&
                       colon + 1 < volume.size() && volume[colon + 1] == '/' &&
                       volume.find(':', colon + 1) == std::string::npos;
  require_manifest_value(is_pair, "--volume", volume,
                         "write CLAIM:PATH, as results:/results, with the name of a claim that exists");
}

PodJob checked_job(const KubernetesOptions& options) {
  if (options.command.empty())
    throw UsageError("the program is missing", "lockstep kubernetes", "name it with its arguments after the flags");
  require_manifest_value(matches_wholly(options.image, "[A-Za-z0-9][^\\s\"]*"), "--image", options.image,
                         "name the image that has the program, as registry.example.org/train:1");
  PodJob job;
  job.name = options.name.empty() ? name_of_program(options.command) : options.name;
  require_manifest_value(
      is_kubernetes_name(job.name), "--name", job.name,
      fmt::format("Kubernetes allows at most {} lower-case letters, digits and hyphens; the first is a letter",
                  kLongestJobName));
  require_manifest_value(options.name_space.empty() || is_kubernetes_name(options.name_space), "--namespace",
                         options.name_space, "write lower-case letters, digits and hyphens");
  require_manifest_value(options.secret.empty() || is_kubernetes_name(options.secret), "--secret", options.secret,
                         "write the name of an existing Secret, not its content");
  job.secret = options.secret.empty() ? job.name : options.secret;
  job.pods = pods_of(options.nodes);
  job.is_elastic = options.nodes.find(':') != std::string::npos;
  require_manifest_value(options.gpus_per_node >= 0, "--gpus-per-node", std::to_string(options.gpus_per_node),
                         "give a number from 0");
  require_manifest_value(options.nproc_per_node >= 0, "--nproc-per-node", std::to_string(options.nproc_per_node),
                         "give a number from 1");
  job.nproc_per_node = options.nproc_per_node > 0 ? options.nproc_per_node : std::max(1, options.gpus_per_node);
  require_manifest_value(
      options.gpus_per_node == 0 || options.gpus_per_node == job.nproc_per_node, "--nproc-per-node",
      std::to_string(job.nproc_per_node),
      fmt::format("a rank takes one GPU: leave it out, or give {} as --gpus-per-node", options.gpus_per_node));
  require_manifest_value(options.cpus.empty() || matches_wholly(options.cpus, "[0-9]+(\\.[0-9]+)?|[0-9]+m"), "--cpus",
                         options.cpus, "write cores, as 4, 1.5 or 500m");
  require_manifest_value(
      options.memory.empty() || matches_wholly(options.memory, "[0-9]+(\\.[0-9]+)?([KMGTPE]i|[kMGTPE])?"), "--memory",
      options.memory, "write a number and Ki, Mi, Gi or Ti, as 8Gi");
  require_manifest_value(options.port >= 1 && options.port <= 65535, "--port", std::to_string(options.port),
                         "give 1 to 65535");
  require_manifest_value(options.grace_seconds >= 0, "--grace-seconds", std::to_string(options.grace_seconds),
                         "give a number from 0");
  for (const std::string& volume : options.volumes) check_volume(volume);
  const auto launcher = launcher_at(options.command, 0);
  require_manifest_value(!launcher || options.command.size() > launcher->end, "PROGRAM", options.command.front(),
                         "also name the program that the launcher starts");
  if (!launcher) job.command = {"lockstep", "run"};
  job.command.insert(job.command.end(), options.command.begin(), options.command.end());
  return job;
}

std::string manifest_head(const std::string& version, const std::string& kind, const std::string& name,
                          const KubernetesOptions& options) {
  std::string text = fmt::format("apiVersion: {}\nkind: {}\nmetadata:\n  name: {}\n", version, kind, yaml_string(name));
  if (!options.name_space.empty()) text += fmt::format("  namespace: {}\n", yaml_string(options.name_space));
  return text;
}

std::string pod_variables(const KubernetesOptions& options, const PodJob& job) {
  std::string text = "          env:\n";
  const auto add = [&](const std::string& name, const std::string& value) {
    text += fmt::format("            - name: {}\n              value: {}\n", name, yaml_string(value));
  };
  const std::string first_pod = fmt::format("{}-0.{}", job.name, job.name);
  add("PET_NNODES", options.nodes);
  add("PET_NPROC_PER_NODE", std::to_string(job.nproc_per_node));
  if (job.is_elastic) {
    add("PET_RDZV_BACKEND", "c10d");
    add("PET_RDZV_ENDPOINT", fmt::format("{}:{}", first_pod, options.port));
    add("PET_RDZV_ID", job.name);
  } else {
    add("PET_MASTER_ADDR", first_pod);
    add("PET_MASTER_PORT", std::to_string(options.port));
    text +=
        "            - name: PET_NODE_RANK\n              valueFrom:\n                fieldRef:\n"
        "                  fieldPath: \"metadata.annotations['batch.kubernetes.io/job-completion-index']\"\n";
  }
  return text + fmt::format(
                    "            - name: LOCKSTEP_SECRET\n              valueFrom:\n                secretKeyRef:\n"
                    "                  name: {}\n                  key: secret\n",
                    yaml_string(job.secret));
}

std::string pod_limits(const KubernetesOptions& options) {
  std::string limits;
  if (!options.cpus.empty()) limits += fmt::format("              cpu: {}\n", yaml_string(options.cpus));
  if (!options.memory.empty()) limits += fmt::format("              memory: {}\n", yaml_string(options.memory));
  if (options.gpus_per_node > 0) limits += fmt::format("              nvidia.com/gpu: \"{}\"\n", options.gpus_per_node);
  return limits.empty() ? "" : "          resources:\n            limits:\n" + limits;
}

// Claims are volumes; beside GPUs also /dev/shm, of which a container has 64 MB, and NCCL wants more.
std::pair<std::string, std::string> mounts_and_volumes(const KubernetesOptions& options) {
  std::string mounts, volumes;
  if (options.gpus_per_node > 0) {
    mounts = "            - name: shm\n              mountPath: /dev/shm\n";
    volumes = "        - name: shm\n          emptyDir:\n            medium: Memory\n";
  }
  for (std::size_t i = 0; i < options.volumes.size(); ++i) {
    const std::size_t colon = options.volumes[i].find(':');
    mounts += fmt::format("            - name: volume-{}\n              mountPath: {}\n", i,
                          yaml_string(options.volumes[i].substr(colon + 1)));
    volumes += fmt::format("        - name: volume-{}\n          persistentVolumeClaim:\n            claimName: {}\n",
                           i, yaml_string(options.volumes[i].substr(0, colon)));
  }
  if (mounts.empty()) return {};
  return {"          volumeMounts:\n" + mounts, "      volumes:\n" + volumes};
}

}  // namespace

std::string kubernetes_job(const KubernetesOptions& options, const std::string& random_secret) {
  const PodJob job = checked_job(options);
  std::string text =
      fmt::format("# Start the job with kubectl apply -f, and see its log with kubectl logs job/{}\n", job.name);
  if (options.secret.empty()) {
    text += "# Ranks authenticate each other with the secret: keep this file to yourself.\n";
    text += manifest_head("v1", "Secret", job.name, options) +
            fmt::format("stringData:\n  secret: {}\n---\n", yaml_string(random_secret));
  }
  text += manifest_head("v1", "Service", job.name, options);
  text += fmt::format(
      "spec:\n  clusterIP: None\n  publishNotReadyAddresses: true  # pods find each other before they are ready\n"
      "  selector:\n    job-name: {}\n---\n",
      yaml_string(job.name));
  text += manifest_head("batch/v1", "Job", job.name, options);
  // A lost pod of a job with a fixed number of nodes ends the job; in an elastic one it is replaced.
  text += fmt::format("spec:\n  completionMode: Indexed\n  completions: {}\n  parallelism: {}\n  backoffLimit: {}\n",
                      job.pods, job.pods, job.is_elastic ? 10 * job.pods : 0);
  text += fmt::format(
      "  template:\n    spec:\n      subdomain: {}\n      restartPolicy: Never\n      terminationGracePeriodSeconds: "
      "{}\n",
      yaml_string(job.name), options.grace_seconds);
  text += fmt::format("      containers:\n        - name: ranks\n          image: {}\n          command: {}\n",
                      yaml_string(options.image), nlohmann::json(job.command).dump());
  const auto [mounts, volumes] = mounts_and_volumes(options);
  return text + pod_variables(options, job) + pod_limits(options) + mounts + volumes;
}

}  // namespace lockstep
