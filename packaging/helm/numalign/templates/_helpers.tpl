{{- define "numalign.labels" -}}
app.kubernetes.io/name: numalign
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end }}

{{- define "numalign.selector" -}}
app.kubernetes.io/name: numalign
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "numalign.image" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository: found nothing, expected where your image of numalign is. Make it with 'make image' or packaging/Dockerfile, push it to your registry, and give --set image.repository=YOUR-REGISTRY/numalign (and image.tag, if it is not the chart's appVersion)" }}
{{- end -}}
{{- $tag := toString (.Values.image.tag | default .Chart.AppVersion) -}}
image: {{ printf "%s:%s" .Values.image.repository $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- /* Of the cluster's own version, without what distributions add to it. */}}
{{- define "numalign.kubeSchedulerImage" -}}
{{- $own := .Values.scheduler.kubeScheduler -}}
{{- if $own.image -}}
{{ $own.image }}
{{- else if $own.repository -}}
{{- $version := semver .Capabilities.KubeVersion.Version -}}
{{ printf "%s:v%d.%d.%d" $own.repository $version.Major $version.Minor $version.Patch }}
{{- else -}}
{{- fail "scheduler.kubeScheduler.repository: found nothing; scheduler.mode=extender runs a kube-scheduler beside the extender. Give the repository of its images in your registry (the tag is the cluster's version), or the whole image as scheduler.kubeScheduler.image" -}}
{{- end -}}
{{- end }}

{{- /* MutatingAdmissionPolicies are served from 1.36 on. */}}
{{- define "numalign.needsPolicies" -}}
{{- if semverCompare "<1.36.0-0" .root.Capabilities.KubeVersion.Version }}
{{- fail (printf "%s: this is a MutatingAdmissionPolicy, which Kubernetes serves from 1.36 on; the cluster has %s. Set it to false%s" .value .root.Capabilities.KubeVersion.Version .instead) }}
{{- end }}
{{- end }}

{{- define "numalign.where" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Replicas on hosts of their own where that can be. */}}
{{- define "numalign.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "numalign.selector" . | nindent 8 }}
{{- end }}

{{- define "numalign.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 2
  failureThreshold: 90
  timeoutSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}

{{- define "numalign.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "numalign.nonroot" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "numalign.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "numalign.leases" -}}
# A replica acts only while it holds the lease of this name.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .name }}]
    verbs: [get, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "numalign.monitored" -}}
{{- if .root.Values.serviceMonitor.enabled }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "numalign.labels" . | nindent 4 }}
spec:
  clusterIP: None
  selector:
    {{- include "numalign.selector" . | nindent 4 }}
  ports:
    - name: metrics
      port: {{ .port }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "numalign.labels" . | nindent 4 }}
    {{- with .root.Values.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "numalign.selector" . | nindent 6 }}
  endpoints:
    - port: metrics
      interval: {{ .root.Values.serviceMonitor.interval }}
{{- end }}
{{- end }}

{{- define "numalign.policy" -}}
{{- if .root.Values.networkPolicy.enabled }}
---
# In come probes and Prometheus, out go questions to the API server and to DNS. What talks on
# loopback (the verbs of the extender) never leaves the pod.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "numalign.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "numalign.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - ports:
        - port: {{ .port }}
        {{- range .more }}
        - port: {{ . }}
        {{- end }}
      {{- with .root.Values.networkPolicy.metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  egress:
    - ports:
        {{- range .root.Values.networkPolicy.apiServerPorts }}
        - port: {{ . }}
        {{- end }}
      {{- with .root.Values.networkPolicy.apiServer }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    - ports:
        - {port: 53, protocol: UDP}
        - {port: 53, protocol: TCP}
{{- end }}
{{- end }}

{{- /* What the exporter sees of its host. The files are mounted one by one: beside them in the
kubelet's directory lie the secrets of all pods of the host. */}}
{{- define "numalign.exporterMounts" -}}
{{- $kubelet := .Values.exporter.kubeletDirectory -}}
sys-devices: {host: /sys/devices, inside: /host/sys/devices, type: Directory}
sys-bus: {host: /sys/bus, inside: /host/sys/bus, type: Directory}
sys-mm: {host: /sys/kernel/mm, inside: /host/sys/kernel/mm, type: Directory}
meminfo: {host: /proc/meminfo, inside: /host/proc/meminfo, type: File}
{{- if .Values.nri.enabled }}
nri-state: {host: {{ .Values.nri.stateDirectory }}, inside: /host-nri-state, type: DirectoryOrCreate}
{{- else }}
pod-resources: {host: {{ $kubelet }}/pod-resources, inside: /host-kubelet/pod-resources, type: Directory}
device-plugins: {host: {{ $kubelet }}/device-plugins, inside: /host-kubelet/device-plugins, type: Directory}
kubelet-config: {host: {{ $kubelet }}/{{ .Values.exporter.kubeletConfig }}, inside: /host-kubelet/{{ .Values.exporter.kubeletConfig }}, type: File}
{{- range .Values.exporter.stateFiles }}
{{ . | replace "_" "-" }}: {host: {{ $kubelet }}/{{ . }}, inside: /host-kubelet/{{ . }}, type: File}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the plugin sees of its host. Of the kubelet's directory only the sockets: beside them lie
the secrets of all pods of the host. The directory of the configuration is mounted as a whole where
it is not the kubelet's own, since the file is replaced by renaming. */}}
{{- define "numalign.nriMounts" -}}
{{- $kubelet := .Values.nri.kubeletDirectory -}}
sys-devices: {host: /sys/devices, inside: /host/sys/devices, type: Directory}
sys-bus: {host: /sys/bus, inside: /host/sys/bus, type: Directory}
sys-mm: {host: /sys/kernel/mm, inside: /host/sys/kernel/mm, type: Directory}
meminfo: {host: /proc/meminfo, inside: /host/proc/meminfo, type: File}
cgroups: {host: /sys/fs/cgroup, inside: /host/sys/fs/cgroup, type: Directory}
nri: {host: {{ dir .Values.nri.socket }}, inside: /host-nri, type: Directory}
pod-resources: {host: {{ $kubelet }}/pod-resources, inside: /host-kubelet/pod-resources, type: Directory}
kubelet-config: {host: {{ .Values.nri.kubeletConfig }}, inside: /host-kubelet-config/{{ base .Values.nri.kubeletConfig }}, type: File}
{{- end }}

{{- define "numalign.withdrawHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "numalign.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
