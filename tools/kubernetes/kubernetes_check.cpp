#include "tools/kubernetes/kubernetes_check.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

using YamlNodes = std::vector<YAML::Node>;

std::string scalar_of(const YAML::Node& node) { return node && node.IsScalar() ? node.Scalar() : ""; }

// The node at a path of keys; undefined if there is none.
YAML::Node node_at(YAML::Node node, std::initializer_list<const char*> path) {
  for (const char* key : path) {
    if (!node.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    node.reset(node[key]);
    if (!node) return node;
  }
  return node;
}

// A whole number, or what Kubernetes takes if it is not given.
int count_at(const YAML::Node& node, int otherwise) {
  const std::string text = scalar_of(node);
  const bool is_number = !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::stoi(text) : otherwise;
}

class KubernetesChecker {
 public:
  KubernetesChecker(const YAML::Node& job, const YamlNodes& services, std::vector<FileFinding>& findings)
      : job_(job), pod_(node_at(job, {"spec", "template", "spec"})), services_(services), findings_(findings) {
    name_ = scalar_of(node_at(job, {"metadata", "name"}));
    completions_ = count_at(node_at(job, {"spec", "completions"}), 1);
    const YAML::Node containers = node_at(pod_, {"containers"});
    if (containers && containers.IsSequence() && containers.size() > 0) container_.reset(containers[0]);
    read_variables();
    words_ = words_at("command") + words_at("args");
    is_elastic_ = has("PET_RDZV_ENDPOINT", "--rdzv-endpoint");
  }

  void check() {
    const YAML::Node restart = node_at(pod_, {"restartPolicy"});
    const std::string policy = scalar_of(restart);
    if (policy != "Never" && policy != "OnFailure") {
      add(restart,
          "restartPolicy is " + (policy.empty() ? "not set" : printable(policy)) + ", which a Job does not allow",
          "restartPolicy: Never");
    }
    if (completions_ > 1) check_several();
  }

 private:
  void check_several() {
    const int parallelism = count_at(node_at(job_, {"spec", "parallelism"}), 1);
    if (parallelism < completions_) {
      add(node_at(job_, {"spec", "parallelism"}),
          fmt::format("{} of {} pods run at a time, and would wait for the others", parallelism, completions_),
          fmt::format("parallelism: {}", completions_));
    }
    check_places();
    check_secret();
    check_address();
    const YAML::Node limit = node_at(job_, {"spec", "backoffLimit"});
    if (!is_elastic_ && count_at(limit, 6) > 0) {
      add(limit, "a pod that is replaced cannot join a job with a fixed number of nodes",
          "backoffLimit: 0; or PET_NNODES: \"MIN:MAX\" with PET_RDZV_ENDPOINT, so that pods may come back");
    }
  }

  void check_places() {
    if (scalar_of(node_at(job_, {"spec", "completionMode"})) != "Indexed") {
      add(node_at(job_, {"spec", "completionMode"}), "the pods have no index and no names", "completionMode: Indexed");
    }
    const YAML::Node nodes = variable("PET_NNODES");
    const std::string count = scalar_of(nodes);
    if (!has("PET_NNODES", "--nnodes")) {
      add({}, fmt::format("nothing says that there are {} nodes: each pod would be a job of its own", completions_),
          fmt::format("set PET_NNODES to \"{}\"", completions_));
    } else if (!count.empty() && count.substr(count.find(':') + 1) != std::to_string(completions_)) {
      add(nodes, fmt::format("PET_NNODES is {}, but the Job has {} pods", printable(count), completions_),
          "make completions and parallelism equal to it");
    }
    const YAML::Node place = variable("PET_NODE_RANK");
    if (!is_elastic_ && (scalar_of(place) != "" || !has("PET_NODE_RANK", "--node-rank"))) {
      add(place, "every pod would call itself the same node",
          "take PET_NODE_RANK from metadata.annotations['batch.kubernetes.io/job-completion-index']");
    }
  }

  void check_secret() {
    const YAML::Node secret = variable("LOCKSTEP_SECRET");
    if (scalar_of(secret) != "") {
      add(secret, "everyone who may read the Job can read the secret", "take it from a Secret: valueFrom.secretKeyRef");
    } else if (!has("LOCKSTEP_SECRET", nullptr) && !has("LOCKSTEP_SECRET_FILE", nullptr)) {
      add({}, "there is no LOCKSTEP_SECRET: ranks of several hosts refuse to start without one",
          "take it from a Secret: valueFrom.secretKeyRef");
    }
  }

  // The first pod's name is JOB-0.SERVICE, if pods have the Service as their subdomain.
  void check_address() {
    const YAML::Node address = variable(is_elastic_ ? "PET_RDZV_ENDPOINT" : "PET_MASTER_ADDR");
    std::string host = scalar_of(address);
    host = host.substr(0, host.find(':'));
    if (host.empty()) {
      if (!is_elastic_ && !has("PET_MASTER_ADDR", "--master-addr"))
        add(address, "no pod knows where the first one is", fmt::format("set PET_MASTER_ADDR to {0}-0.{0}", name_));
      return;
    }
    const std::size_t dot = host.find('.');
    if (dot == std::string::npos) return;  // an address of another kind
    const std::string service = host.substr(dot + 1, host.find('.', dot + 1) - dot - 1);
    const YAML::Node subdomain = node_at(pod_, {"subdomain"});
    if (host.substr(0, dot) != name_ + "-0") {
      add(address, fmt::format("{} is not the first pod, which is {}-0", printable(host.substr(0, dot)), name_),
          fmt::format("write {}-0.{}", name_, service));
    }
    if (scalar_of(subdomain) != service) {
      add(subdomain, fmt::format("the pods have no names in {}", printable(service)),
          "subdomain: " + printable(service));
    }
    check_service(service);
  }

  void check_service(const std::string& name) {
    for (const YAML::Node& service : services_) {
      if (scalar_of(node_at(service, {"metadata", "name"})) != name) continue;
      const YAML::Node cluster_ip = node_at(service, {"spec", "clusterIP"});
      if (scalar_of(cluster_ip) != "None")
        add(cluster_ip, "this Service gives its pods no names of their own", "clusterIP: None");
      const YAML::Node early = node_at(service, {"spec", "publishNotReadyAddresses"});
      if (scalar_of(early) != "true")
        add(early, "pods that are not ready yet have no names", "publishNotReadyAddresses: true");
      return;
    }
    add({}, fmt::format("there is no Service {} in this file", printable(name)),
        "if no other file has it, take the one that `lockstep kubernetes` writes");
  }

  void read_variables() {
    const YAML::Node env = node_at(container_, {"env"});
    if (!env || !env.IsSequence()) return;
    for (const YAML::Node& one : env) variables_[scalar_of(node_at(one, {"name"}))].reset(node_at(one, {"value"}));
  }

  std::string words_at(const char* key) const {
    std::string text;
    const YAML::Node words = node_at(container_, {key});
    if (!words || !words.IsSequence()) return text;
    for (const YAML::Node& word : words) text += scalar_of(word) + " ";
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
  }

  bool has(const char* variable, const char* flag) const {
    return variables_.count(variable) > 0 || (flag != nullptr && words_.find(flag) != std::string::npos);
  }

  // What the variable is set to; undefined if that comes from elsewhere.
  YAML::Node variable(const char* name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? YAML::Node(YAML::NodeType::Undefined) : found->second;
  }

  void add(const YAML::Node& node, const std::string& problem, const std::string& fix) {
    findings_.push_back({node.IsDefined() ? node.Mark().line + 1 : 0, problem, fix});
  }

  YAML::Node job_, pod_, container_;
  const YamlNodes& services_;
  std::vector<FileFinding>& findings_;
  std::string name_;
  std::string words_;  // of the command, underscores as hyphens
  int completions_ = 1;
  bool is_elastic_ = false;
  std::map<std::string, YAML::Node> variables_;
};

}  // namespace

std::vector<FileFinding> check_kubernetes_file(const std::string& text) {
  YamlNodes jobs, services;
  try {
    for (const YAML::Node& document : YAML::LoadAll(text)) {
      const std::string kind = scalar_of(node_at(document, {"kind"}));
      if (kind == "Job") jobs.push_back(document);
      if (kind == "Service") services.push_back(document);
    }
  } catch (const YAML::Exception& error) {
    throw Error(fmt::format("it is not YAML: {}", error.msg), fmt::format("line {}", error.mark.line + 1),
                "kubectl apply --dry-run=client -f FILE reports the place, too");
  }
  std::vector<FileFinding> findings;
  if (jobs.empty())
    findings.push_back({0, "there is no Job in it", "write one: lockstep kubernetes --image IMAGE -- PROGRAM"});
  for (const YAML::Node& job : jobs) KubernetesChecker(job, services, findings).check();
  return findings;
}

}  // namespace lockstep
