{{- define "quintain.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "quintain.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/name: quintain
app.kubernetes.io/instance: {{ include "quintain.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* What the pods of every run of this release have in common, whoever made them. */}}
{{- define "quintain.workerLabels" -}}
app.kubernetes.io/name: quintain
app.kubernetes.io/component: worker
quintain.dev/release: {{ include "quintain.name" . }}
{{- end -}}

{{- define "quintain.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "quintain.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "quintain.secret" -}}
{{- default (include "quintain.name" .) .Values.queue.existingSecret -}}
{{- end -}}

{{/* The NATS server, as HOST:PORT. */}}
{{- define "quintain.natsHost" -}}
{{- if .Values.nats.enabled -}}
{{- printf "%s-nats.%s.svc:4222" (include "quintain.name" .) .Release.Namespace -}}
{{- else -}}
{{- required "queue.url (nats://HOST:4222) or nats.enabled=true is needed" .Values.queue.url | trimPrefix "nats://" | trimSuffix "/" -}}
{{- end -}}
{{- end -}}

{{- define "quintain.token" -}}
{{- if .Values.queue.token -}}
{{- .Values.queue.token -}}
{{- else if .Values.nats.enabled -}}
{{- $old := lookup "v1" "Secret" .Release.Namespace (include "quintain.name" .) -}}
{{- if and $old $old.data (hasKey $old.data "NATS_TOKEN") -}}{{ index $old.data "NATS_TOKEN" | b64dec }}{{- else -}}{{ randAlphaNum 32 }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What a worker's container may do, by what makes its sandboxes. README.md says why each line is there. */}}
{{- define "quintain.containerSecurity" -}}
{{- if eq .Values.sandbox.backend "agent-sandbox" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- else if eq .Values.sandbox.backend "userns" -}}
runAsUser: 0
runAsGroup: 0
allowPrivilegeEscalation: true
readOnlyRootFilesystem: true
procMount: Unmasked
capabilities:
  drop: [ALL]
  add: [SYS_ADMIN, SETUID, SETGID, SETPCAP, CHOWN, DAC_OVERRIDE, FOWNER, KILL, MKNOD, NET_ADMIN, SYS_CHROOT]
seccompProfile: {type: Unconfined}
appArmorProfile: {type: Unconfined}
{{- else -}}
runAsUser: 0
runAsGroup: 0
privileged: true
readOnlyRootFilesystem: true
{{- end -}}
{{- end -}}

{{/* A worker's pod without what a run brings: its folder, and the words of its command. */}}
{{- define "quintain.pod" -}}
serviceAccountName: {{ include "quintain.serviceAccount" . }}
automountServiceAccountToken: {{ eq .Values.sandbox.backend "agent-sandbox" }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.worker.terminationGracePeriodSeconds }}
{{- if eq .Values.sandbox.backend "userns" }}
hostUsers: false
{{- end }}
{{- with .Values.worker.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if eq .Values.sandbox.backend "agent-sandbox" }}
securityContext:
  runAsNonRoot: true
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}
containers:
  - name: worker
    image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [quintain]
    workingDir: /tmp
    securityContext: {{- include "quintain.containerSecurity" . | nindent 6 }}
    resources: {{- toYaml .Values.worker.resources | nindent 6 }}
    lifecycle:
      preStop:
        sleep: {seconds: 2}  # the SIGTERM that follows begins the drain
    env:
      - name: QUINTAIN_POD_NAME
        valueFrom: {fieldRef: {fieldPath: metadata.name}}
      - name: QUINTAIN_POD_UID
        valueFrom: {fieldRef: {fieldPath: metadata.uid}}
      - name: QUINTAIN_SANDBOX_NAMESPACE
        valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
      - {name: QUINTAIN_SANDBOX_IMAGE, value: {{ .Values.sandbox.image | quote }}}
      - {name: QUINTAIN_SANDBOX_RUNTIME_CLASS, value: {{ .Values.sandbox.runtimeClassName | quote }}}
      - {name: QUINTAIN_SANDBOX_WARM, value: {{ .Values.sandbox.warm | quote }}}
      - {name: HOME, value: /tmp}
      - {name: XDG_CACHE_HOME, value: /var/cache/quintain}
      {{- with .Values.worker.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    envFrom:
      - secretRef: {name: {{ include "quintain.secret" . }}}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      - {name: cache, mountPath: /var/cache/quintain}
      - {name: run-quintain, mountPath: /run/quintain}
      {{- with .Values.worker.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - {name: tmp, emptyDir: {}}
  - {name: cache, emptyDir: {}}
  - {name: run-quintain, emptyDir: {medium: Memory}}
  {{- with .Values.worker.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.worker.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.worker.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.worker.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* One rule of egress: to pods by label, or to addresses. */}}
{{- define "quintain.egress" -}}
- to:
    {{- if .cidr }}
    - ipBlock: {cidr: {{ .cidr }}}
    {{- else }}
    - podSelector: {{- if .podLabels }}{{- toYaml (dict "matchLabels" .podLabels) | nindent 8 }}{{- else }} {}{{- end }}
      {{- if .namespaceLabels }}
      namespaceSelector: {{- toYaml (dict "matchLabels" .namespaceLabels) | nindent 8 }}
      {{- end }}
    {{- end }}
  ports:
    - {protocol: TCP, port: {{ .port }}}
{{- end -}}
