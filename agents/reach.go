package agents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/gateway"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The hosts that the programs reach where a sandbox restricts the network: those of their models and of their sign-in, unless a
// person configured another server for the model.
var (
	claudeHosts = []string{"api.anthropic.com", "platform.claude.com", "console.anthropic.com"}
	codexHosts  = []string{"api.openai.com", "chatgpt.com", "auth.openai.com"}
	// openCodeHosts holds the hosts by provider, as the names of opencode's models begin.
	openCodeHosts = map[string]openCodeProvider{
		"opencode":       {hosts: []string{"opencode.ai"}, key: "OPENCODE_API_KEY"},
		"anthropic":      {claudeHosts, "ANTHROPIC_API_KEY"},
		"openai":         {codexHosts, "OPENAI_API_KEY"},
		"openrouter":     {[]string{"openrouter.ai"}, "OPENROUTER_API_KEY"},
		"google":         {[]string{"generativelanguage.googleapis.com"}, "GEMINI_API_KEY"},
		"groq":           {[]string{"api.groq.com"}, "GROQ_API_KEY"},
		"mistral":        {[]string{"api.mistral.ai"}, "MISTRAL_API_KEY"},
		"deepseek":       {[]string{"api.deepseek.com"}, "DEEPSEEK_API_KEY"},
		"xai":            {[]string{"api.x.ai"}, "XAI_API_KEY"},
		"github-copilot": {hosts: []string{"api.githubcopilot.com", "api.github.com"}},
	}
)

type openCodeProvider struct {
	hosts []string
	key   string // name of the variable that holds the key
}

// Reaches returns the hosts that an agent needs where a sandbox restricts the network, in addition to those of the project.
func (o Options) Reaches(name string) []string {
	own := Own{}
	if _, custom := o.Commands[name]; !custom {
		if b, ok := builtInNamed(name); ok {
			own = b.addHosts(o, own)
		}
	}
	return slices.Concat(own.Servers, own.Hosts)
}

var claudeServers = trellis.Pattern(`"ANTHROPIC_\w*BASE_URL"\s*:\s*"([^"]+)"`)

// addClaudeHosts returns own with the servers of claude's models: those of a cloud if the variables select one.
func (o Options) addClaudeHosts(own Own) Own {
	own.Hosts = claudeHosts
	own = own.withServers(serversIn(filepath.Join(o.home("CLAUDE_CONFIG_DIR", ".claude"), "settings.json"), claudeServers())...)
	for _, name := range []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_FOUNDRY_BASE_URL"} {
		own = own.withServers(lookup(o.Environ, name))
	}
	var clouds []string // all clouds that are selected; claude itself decides which one it uses
	for _, c := range []struct {
		asked string
		hosts func() []string
	}{{"CLAUDE_CODE_USE_BEDROCK", o.bedrockHosts}, {"CLAUDE_CODE_USE_VERTEX", o.vertexHosts}, {"CLAUDE_CODE_USE_FOUNDRY", o.foundryHosts}} {
		if lookup(o.Environ, c.asked) != "" {
			clouds = append(clouds, c.hosts()...)
		}
	}
	if len(clouds) > 0 {
		own.Hosts = clouds
	}
	return own
}

// withServers returns own with servers that a person configured, which replace the program's default hosts.
func (own Own) withServers(addresses ...string) Own {
	for _, address := range addresses {
		if server := gateway.Server(address); server != "" {
			own.Servers = append(own.Servers, server)
		}
	}
	if len(own.Servers) > 0 {
		own.Hosts = nil
	}
	return own
}

// serversIn returns the servers that a settings file names. A symbolic link is ignored: it is in a folder that the program can
// write to, so it could point to settings written by the program.
func serversIn(file string, rule *regexp.Regexp) []string {
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return namesIn(file, rule)
}

// firstSetOr returns the value of the first of the named variables that is set, or value.
func (o Options) firstSetOr(value string, names ...string) string {
	for _, name := range names {
		if v := lookup(o.Environ, name); v != "" {
			return v
		}
	}
	return value
}

func (o Options) bedrockHosts() (hosts []string) {
	regions := []string{o.firstSetOr("us-east-1", "AWS_REGION", "AWS_DEFAULT_REGION"), lookup(o.Environ, "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION")}
	for _, region := range slices.DeleteFunc(regions, func(r string) bool { return r == "" }) {
		for _, service := range []string{"bedrock-runtime", "bedrock", "sts", "oidc", "portal.sso"} {
			hosts = append(hosts, service+"."+region+".amazonaws.com")
		}
	}
	return append(hosts, "sts.amazonaws.com")
}

func (o Options) vertexHosts() []string {
	hosts := []string{"aiplatform.googleapis.com", "oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com"}
	for _, e := range o.Environ {
		name, region, _ := strings.Cut(e, "=")
		if (name == "CLOUD_ML_REGION" || strings.HasPrefix(name, "VERTEX_REGION_")) && region != "" && region != "global" {
			hosts = append(hosts, region+"-aiplatform.googleapis.com")
		}
	}
	return hosts
}

func (o Options) foundryHosts() []string {
	hosts := []string{"login.microsoftonline.com"}
	if resource := lookup(o.Environ, "ANTHROPIC_FOUNDRY_RESOURCE"); resource != "" {
		hosts = append(hosts, resource+".services.ai.azure.com")
	}
	return hosts
}

var codexServers = trellis.Pattern(`(?m)^[^#\n]*base_url"?\s*=\s*["']([^"']+)["']`)

// addCodexHosts returns own with the servers of codex's models: those in its settings if it names any.
func (o Options) addCodexHosts(own Own) Own {
	settings := filepath.Join(o.home("CODEX_HOME", ".codex"), "config.toml")
	own.Hosts = codexHosts
	if mentions("bedrock", settings) {
		own.Hosts = slices.Concat(codexHosts, o.bedrockHosts())
	}
	chosen := lookup(o.Environ, "OPENAI_BASE_URL")
	hosts := own.Hosts
	own = own.withServers(append(serversIn(settings, codexServers()), chosen)...)
	if chosen == "" && len(serversIn(settings, codexProvider())) == 0 {
		own.Hosts = hosts // the settings define servers, but none is chosen
	}
	return own
}

var openCodeServers = trellis.Pattern(`"baseURL"\s*:\s*"([^"]+)"`)

var openCodeModels = trellis.Pattern(`"(?:small_)?model"\s*:\s*"([^"/]+)/`)

// addHosts returns own with the servers of opencode's models: those that its settings name, and those of known providers for which
// a key is set or which the model or the settings name. If that yields none, addHosts adds the host of the free models. opencode's
// account file is not read: opencode writes it itself.
func (c openCode) addHosts(own Own, model string) Own {
	models := []string{model}
	for _, file := range c.configs() {
		own = own.withServers(c.expandVariables(serversIn(file, openCodeServers()))...)
		for _, provider := range serversIn(file, openCodeModels()) {
			models = append(models, provider+"/")
		}
	}
	for _, m := range openCodeServers().FindAllStringSubmatch(lookup(c.o.Environ, "OPENCODE_CONFIG_CONTENT"), -1) {
		own = own.withServers(c.expandVariables(m[1:])...)
	}
	for name, p := range openCodeHosts {
		if lookup(c.o.Environ, p.key) != "" || slices.ContainsFunc(models, func(m string) bool { return strings.HasPrefix(m, name+"/") }) {
			own.Hosts = append(own.Hosts, p.hosts...)
		}
	}
	for provider, cloud := range map[string]func() []string{"amazon-bedrock": c.o.bedrockHosts, "google-vertex": c.o.vertexHosts} {
		if strings.HasPrefix(model, provider) || mentions(provider, c.configs()...) {
			own.Hosts = append(own.Hosts, cloud()...)
		}
	}
	if len(own.Hosts)+len(own.Servers) == 0 {
		own.Hosts = openCodeHosts["opencode"].hosts
	}
	slices.Sort(own.Hosts)
	own.Hosts = slices.Compact(own.Hosts)
	return own
}

// expandVariables returns the addresses with their {env:NAME} placeholders replaced by the values of the variables.
func (c openCode) expandVariables(addresses []string) (list []string) {
	for _, address := range addresses {
		list = append(list, openCodeNames().ReplaceAllStringFunc(address, func(slot string) string {
			return lookup(c.o.Environ, openCodeNames().FindStringSubmatch(slot)[1])
		}))
	}
	return list
}
