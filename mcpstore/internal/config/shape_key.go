package config

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// meaning is what a key of a server entry is for.
type meaning int

const (
	unknownKey meaning = iota
	commandKey
	argsKey
	envKey
	envNamesKey // names only: the client passes its own environment on
	envFileKey
	cwdKey
	urlKey
	headersKey
	envHeadersKey // header → name of a variable
	requestKey    // an object with headers
	bearerKey     // name of a variable with a bearer token
	typeKey
	disabledKey
	enabledKey
	timeoutKey // seconds or milliseconds
	timeoutSecKey
	timeoutMsKey
	includeKey
	excludeKey
	toolsKey
	authKey
	scopesKey
	nameKey
	notObeyedKey
	forbiddenKey
	ignoredKey
)

// meaningOf knows the keys of the clients; anything else is unknownKey.
func meaningOf(key string) meaning {
	switch key {
	case "command", "cmd":
		return commandKey
	case "args", "arguments":
		return argsKey
	case "env", "environment":
		return envKey
	case "env_vars", "envVars", "env_keys", "envKeys", "inheritEnv", "env_passthrough":
		return envNamesKey
	case "envFile", "env_file":
		return envFileKey
	case "cwd", "workingDirectory", "working_directory", "workingDir", "working_dir", "workDir", "workdir":
		return cwdKey
	case "url", "serverUrl", "serverURL", "server_url", "httpUrl", "http_url", "sseUrl", "sse_url", "endpoint", "uri", "baseUrl":
		return urlKey
	case "headers", "http_headers", "httpHeaders", "customHeaders":
		return headersKey
	case "requestOptions", "request_options", "requestInit":
		return requestKey
	case "env_http_headers":
		return envHeadersKey
	case "bearer_token_env_var":
		return bearerKey
	case "type", "transport", "transportType", "transport_type":
		return typeKey
	case "disabled":
		return disabledKey
	case "enabled", "isActive", "active":
		return enabledKey
	case "timeout", "requestTimeout", "request_timeout", "toolTimeout", "tool_timeout", "execute_timeout", "executeTimeout", "executionTimeout", "call_timeout", "callTimeout":
		return timeoutKey
	case "timeout_sec", "tool_timeout_sec", "timeoutSec", "timeoutSeconds", "timeout_seconds":
		return timeoutSecKey
	case "timeoutMs", "timeout_ms", "requestTimeoutMs", "tool_timeout_ms", "toolTimeoutMs":
		return timeoutMsKey
	case "includeTools", "include_tools", "enabled_tools", "enabledTools", "allowedTools", "allowed_tools", "available_tools", "toolAllowlist":
		return includeKey
	case "excludeTools", "exclude_tools", "disabled_tools", "disabledTools", "excludedTools", "excluded_tools", "deniedTools", "blockedTools":
		return excludeKey
	case "tools", "toolFilter", "tool_filter", "toolsFilter":
		return toolsKey
	case "auth", "oauth":
		return authKey
	case "oauthScopes", "oauth_scopes", "scopes":
		return scopesKey
	case "name", "id", "key", "server_label", "serverLabel", "server_name", "serverName":
		return nameKey
	}
	if notObeyed(key) {
		return notObeyedKey
	}
	if forbidden(key) {
		return forbiddenKey
	}
	if ignored(key) {
		return ignoredKey
	}
	return unknownKey
}

func notObeyed(key string) bool {
	return slices.Contains([]string{"autoApprove", "auto_approve", "autoapprove", "alwaysAllow", "always_allow", "trust", "trusted", "trustedTools", "autoAllow", "autoApproveAll",
		"headersHelper", "headers_helper", "alwaysLoad", "default_tools_approval_mode", "defaultToolsApprovalMode", "approval_mode", "approvalMode", "requireApproval", "require_approval",
		"permissions", "codex", "autoRun", "approved", "allowAll", "bypassPermissions", "sampling", "autoApprovedTools", "yolo", "sandboxEnabled", "sandbox"}, key)
}

func forbidden(key string) bool {
	return slices.Contains([]string{"privileged", "volumes", "volume", "network", "networks", "networkMode", "network_mode", "image", "devices", "capabilities", "cap_add", "capAdd",
		"mounts", "security_opt", "securityOpt"}, key)
}

// quiet reports whether a key of a server only describes it, or is the other client's own bookkeeping: nothing is lost with it.
func quiet(key string) bool {
	return aside(key) || slices.Contains([]string{"gallery", "metadata", "category", "maintainer", "owner", "icon", "iconPath", "author", "homepage", "tags", "logoUrl", "documentation", "docs", "repository",
		"license", "notes", "note", "example", "examples", "display_name", "displayName", "fromGalleryId", "installSource", "registryUrl", "label", "labels", "kind", "purpose", "usage", "status", "shortName",
		"reference", "bundled", "installed", "tested", "group", "features", "priority", "providerUrl", "source", "autoStart", "auto_start", "startup_timeout_sec", "startup_timeout_ms", "startupTimeout", "startupTimeoutMs", "startup_timeout",
		"initTimeout", "init_timeout", "connect_timeout", "connectTimeout", "supports_parallel_tool_calls", "provides", "languages", "builtin", "builtIn", "configured", "chatMenu", "dev", "required", "optional"}, key)
}

func ignored(key string) bool {
	if strings.HasPrefix(key, "_") || strings.HasPrefix(key, "//") || strings.HasPrefix(key, "$") || strings.HasPrefix(key, "#") || strings.HasPrefix(strings.ToLower(key), "x-") {
		return true
	}
	return slices.Contains([]string{"description", "autoStart", "auto_start", "metadata", "category", "maintainer", "retryAttempts", "retryDelay", "retries", "gallery", "version", "dev",
		"config", "owner", "rateLimit", "rate_limit", "icon", "iconPath", "title", "author", "homepage", "tags", "provider", "providerUrl", "logoUrl", "source", "restart", "debug", "log",
		"logLevel", "log_level", "stderr", "watchPaths", "priority", "protocolVersion", "instructions", "documentation", "repository", "license", "notes", "note", "comment", "comments",
		"example", "examples", "required", "optional", "scope", "settings", "startup_timeout_sec", "startup_timeout_ms", "startupTimeout", "connect_timeout", "connectTimeout",
		"initTimeout", "init_timeout", "sse_read_timeout", "authProviderType", "targetAudience", "targetServiceAccount", "supports_parallel_tool_calls", "bundled", "display_name",
		"displayName", "fromGalleryId", "registryUrl", "installSource", "shortName", "longRunning", "reference", "features", "status", "docs", "label", "kind", "package", "runtime",
		"dependencies", "install", "setup", "usage", "purpose", "role", "workflows", "resources", "prompts", "encoding", "dxt_version", "extensionId", "provides", "languages", "shell",
		"requirements", "searchKey", "dockerImage", "options", "ssl_verify", "verify", "proxy", "autoConnect", "lazy", "idleTimeout", "healthCheck", "health_check", "cacheTools", "installed",
		"tested", "context", "hooks", "group", "labels", "spec", "transportOptions", "sseReadTimeout", "env_clear", "user", "pid", "ipc", "ports", "port", "host", "defaults", "default", "local", "remote", "fallback", "allow",
		"deny", "reconnect", "max_retries", "maxRetries", "chatMenu", "agents", "overrideAuthToken", "initializationOptions", "oauthClientId", "clientId", "client_id"}, key)
}

// coreKeys are those that a misspelt key is compared with.
func coreKeys() []string {
	return []string{"command", "args", "env", "cwd", "url", "type", "headers", "disabled", "enabled", "timeout", "tools", "transport", "environment", "serverUrl", "httpUrl"}
}

// nearest gives the known key that key is probably meant to be, "" if none is near.
func nearest(key string, known []string) string {
	best, dist := "", 3
	for _, k := range known {
		if strings.EqualFold(key, k) || plain(key) == plain(k) {
			return k
		}
		d := levenshtein.ComputeDistance(strings.ToLower(key), strings.ToLower(k))
		if len(k) <= 4 && d > 1 && !swapped(strings.ToLower(key), k) {
			continue
		}
		if d < dist && len(key) > 2 {
			best, dist = k, d
		}
	}
	return best
}

// swapped reports whether two neighbouring letters of b changed places in a.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i+1 < len(a); i++ {
		if a[:i] == b[:i] && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:] {
			return true
		}
	}
	return false
}

// transportWord translates the clients' words for a transport; "" is unknown, "ws" and "skip" are special.
func transportWord(t string) string {
	switch plain(t) {
	case "stdio", "local", "process", "mcpstdio", "cmd":
		return "stdio"
	case "http", "streamablehttp", "httpstream", "streamable", "https", "httpstreamable", "remote", "streamhttp", "streaminghttp", "mcpstreamablehttp", "mcphttp", "url":
		return "http"
	case "sse", "httpsse", "mcpsse":
		return "sse"
	case "ws", "wss", "websocket":
		return "ws"
	case "builtin", "sdk", "platform", "frontend", "inprocess", "inmemory", "memory", "extension", "inlinepython":
		return "skip"
	}
	return ""
}
